-- Accepts a signal for a thread: appends it to the inbox, tells the owner, or makes the caller the owner. One step, so
-- that no signal can fall between an owner that is leaving and one that is not there yet (S1, S2, S3).
--
-- KEYS  1 lease  2 token  3 fence  4 inbox  5 state  6 index  7 seen  8 out  9 runs
-- ARGV  1 thread name          2 envelope (JSON)    3 agent id        4 turn: current | next
--       5 behavior if active   6 behavior if idle   7 claiming owner, '' = may not take the thread
--       8 lease TTL ms         9 dedupe window ms  10 most entries   11 most bytes
--      12 only into this run, '' = any             13 instance channel prefix    14 orphan channel
--      15 signal id
--
-- Replies
--   {'accepted', action, owner or '', token or '', waiting before, unowned ms or '', taken over}
--     token: the lease is the caller's; unowned: others had been waiting for an owner; taken over: '1' when an owner's run died with it
--   {'duplicate', action of then, owner of then or '', token or '', 0, '', ''}
--   {'other_run', owner or ''}
--   {'blocked', owner}   the run that it is meant for is another agent's
--   {'full', entries, bytes}
--
-- The state hash of a thread: `wake` waiting entries that wake, `bytes` size of all that wait, `try:<entry>` deliveries of
-- an entry, `open:<entry>` those that nobody has accounted for (see inbox-entries), `run` the run that is on, `agent` its agent (once it has taken), `from` the output's end
-- when it began, `batch` the last of its output batches, `abort` the owner whose run is asked to stop, `offered` the owner
-- that gives the thread to whoever claims it, `unread` there is something that the owner was told of and has not looked at.

-- @include thread-lease
-- @include inbox-entries

-- Of the run that is on: if it has not taken yet, it will be that of the first entry that wakes.
local function agent_of_run(inbox, state)
  local agent = redis.call('HGET', state, 'agent')
  if agent then return agent end
  for _, entry in ipairs(read_entries(inbox, '-', '+', 256)) do
    if entry.wakes == '1' then return entry.agent end
  end
  return false
end

local name, envelope = ARGV[1], ARGV[2]
local claim, ttl = ARGV[7], tonumber(ARGV[8])
local owner = redis.call('GET', KEYS[1])

-- What became of it, and whose run it was for: a retry is told the same, whoever owns the thread by then.
local function remember(action, whose)
  redis.call('SET', KEYS[7], action .. ' ' .. whose, 'PX', ARGV[9])
end

local known = redis.call('GET', KEYS[7])
if known then
  local action, whose = known:match('^(%S+) (.*)$')
  -- A retry after a lost reply: if that first try made the caller the owner, it hears so again.
  local token = claim ~= '' and owner == claim and redis.call('GET', KEYS[2])
  return {'duplicate', action, whose, token or '', 0, '', ''}
end

if ARGV[12] ~= '' and (not owner or run_of(owner) ~= ARGV[12]) then return {'other_run', owner or ''} end
if ARGV[12] ~= '' and (agent_of_run(KEYS[4], KEYS[5]) or ARGV[3]) ~= ARGV[3] then return {'blocked', owner} end

local behavior = owner and ARGV[5] or ARGV[6]
if behavior == 'discard' then
  remember(behavior, owner or '')
  return {'accepted', behavior, owner or '', '', 0, ''}
end

local entries = redis.call('XLEN', KEYS[4])
local bytes = tonumber(redis.call('HGET', KEYS[5], 'bytes') or 0)
if entries >= tonumber(ARGV[10]) or bytes + #envelope > tonumber(ARGV[11]) then return {'full', entries, bytes} end

local wakes = behavior ~= 'persist'
redis.call('XADD', KEYS[4], '*', 'signal', envelope, 'id', ARGV[15], 'agent', ARGV[3], 'turn', ARGV[4],
  'branch', owner and 'active' or 'idle', 'wakes', wakes and '1' or '0')
redis.call('HINCRBY', KEYS[5], 'bytes', #envelope)
remember(behavior, owner or (wakes and claim) or '')
if not wakes then return {'accepted', behavior, owner or '', '', entries, ''} end

local waking_now = redis.call('HINCRBY', KEYS[5], 'wake', 1)
if owner then
  look_at(KEYS[6], name, KEYS[1])
  redis.call('HSET', KEYS[5], 'unread', '1')
  ring(ARGV[13], owner, 'arrival ' .. name)
  return {'accepted', behavior, owner, '', entries, ''}
end
if claim == '' then
  -- LT: if others wait already, the thread has been without an owner since before now.
  redis.call('ZADD', KEYS[6], 'LT', now_ms(), name)
  redis.call('SPUBLISH', ARGV[14], name)
  return {'accepted', behavior, '', '', entries, ''}
end
local unowned = waking_now > 1 and unowned_ms(KEYS[6], name) or ''
local token = grant_lease(KEYS[1], KEYS[2], KEYS[3], claim, ttl)
local taken_over = begin_run(KEYS[5], KEYS[8], KEYS[9], name, claim)
redis.call('ZADD', KEYS[6], now_ms() + ttl, name)
return {'accepted', behavior, claim, token, entries, unowned, taken_over}
