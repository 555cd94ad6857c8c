-- a thread's lease as the mailbox scripts see it
-- @include mint-token

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- An owner is `<instance>/<run>`.
local function run_of(owner)
  return owner:match('([^/]*)$')
end

-- The owner's name says which run it is, the token which grant: an old owner fails on one or the other (L6).
local function holds_lease(lease, token, owner, fencing_token)
  return redis.call('GET', lease) == owner and (redis.call('GET', token) or '') == fencing_token
end

local function grant_lease(lease, token, fence, owner, ttl)
  local minted = mint_token(fence)
  redis.call('SET', lease, owner, 'PX', ttl)
  redis.call('SET', token, minted, 'PX', ttl)
  return minted
end

-- Marks where the output of the run that begins now will start.
local function begin_run(state, out)
  local last = redis.call('XREVRANGE', out, '+', '-', 'COUNT', 1)
  redis.call('HSET', state, 'from', last[1] and last[1][1] or '0-0')
  redis.call('HDEL', state, 'abort', 'batch')
end

local function waking(state)
  return tonumber(redis.call('HGET', state, 'wake') or 0)
end

-- Somebody must look at a waiting thread when its owner's lease would have ended.
local function look_at(index, name, lease)
  redis.call('ZADD', index, 'NX', now_ms() + math.max(redis.call('PTTL', lease), 1000), name)
end

-- A hint; what is lost here, the index brings back.
local function ring(channel_prefix, owner, message)
  local instance = owner:match('^(.*)/')
  if instance then redis.call('SPUBLISH', channel_prefix .. instance, message) end
end
