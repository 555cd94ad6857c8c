-- Takes waiting signals out of the inbox on request. What the run that is on was given stays its own.
--
-- KEYS  1 lease  2 token  3 inbox  4 state  5 index  6 out  7 runs
-- ARGV  1 thread name  2 output channel  3.. signal ids; none = all that wait
--
-- Replies
--   {'cancelled', {signal id, ...}}

-- @include thread-lease
-- @include inbox-entries

local chosen
for at = 3, #ARGV do
  chosen = chosen or {}
  chosen[ARGV[at]] = true
end
local owned = redis.call('EXISTS', KEYS[1]) == 1
local cancelled = cancel_waiting(KEYS[3], KEYS[4], KEYS[5], ARGV[1], owned and redis.call('GET', KEYS[2]), chosen)
if not owned and waking(KEYS[4]) == 0 then
  -- Nobody comes after a run that died here: it is ended by whoever took its signals away.
  local _, told = end_dead_run(KEYS[4], KEYS[6], KEYS[7])
  if told then redis.call('SPUBLISH', ARGV[2], '') end
  if redis.call('XLEN', KEYS[3]) == 0 then redis.call('DEL', KEYS[3], KEYS[4]) end
end
return {'cancelled', cancelled}
