-- a thread's lease as the mailbox scripts see it
-- @include mint-token
-- @include output-chunks

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

-- Forgets the run that is on. Answers its id, if there was one.
local function end_run(state, runs)
  local run = redis.call('HGET', state, 'run')
  if run then redis.call('HDEL', runs, run) end
  redis.call('HDEL', state, 'run', 'agent', 'from', 'abort', 'batch', 'offered')
  return run
end

-- A run that was never settled died with its owner: whoever reads the output is told that no more of it will come. Answers the
-- end of the output, whether there was something to tell, and whether there was such a run.
local function end_dead_run(state, out, runs)
  local cut_short = end_run(state, runs)
  local last = last_chunk(out)
  if not cut_short or redis.call('EXISTS', out) == 0 then return last, false, cut_short end
  local chunk = {type = 'error', runId = cut_short, from = 'AGENT',
    payload = {error = {code = 'SIG_LEASE_LOST', message = 'the owner of this run is gone; what still waits is run again'}}}
  return put_chunk(out, last, cjson.encode(chunk)), true, cut_short
end

-- Notes the run that begins now and where its output will start. Answers '1' if the one before died with its owner, else ''.
local function begin_run(state, out, runs, name, owner)
  local last, _, died = end_dead_run(state, out, runs)
  redis.call('HSET', state, 'run', run_of(owner), 'from', last)
  redis.call('HSET', runs, run_of(owner), name)
  return died and '1' or ''
end

local function waking(state)
  return tonumber(redis.call('HGET', state, 'wake') or 0)
end

-- When the lease that is held ends, as it stands now; one without an end is looked at again in a second.
local function lease_end(lease)
  local left = redis.call('PTTL', lease)
  return now_ms() + (left < 0 and 1000 or left)
end

-- Somebody must look at a waiting thread when its owner's lease would have ended.
local function look_at(index, name, lease)
  redis.call('ZADD', index, 'NX', lease_end(lease), name)
end

-- For how long a waiting thread without an owner has had none, ms; '' if that is not known. The index has it: an owner that lets
-- go is noted there with the time, one that dies with the end of its lease as it was last looked at. Renewals after that look
-- may have put the end off, by less than the time to the next look: so this is never too short, and at most a sweep too long.
local function unowned_ms(index, name)
  local since = redis.call('ZSCORE', index, name)
  return since and math.max(0, now_ms() - since) or ''
end

-- A hint; what is lost here, the index brings back.
local function ring(channel_prefix, owner, message)
  local instance = owner:match('^(.*)/')
  if instance then redis.call('SPUBLISH', channel_prefix .. instance, message) end
end
