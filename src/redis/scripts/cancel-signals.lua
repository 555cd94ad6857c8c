-- Takes waiting signals out of the inbox on request. What the run that is on was given stays its own.
--
-- KEYS  1 lease  2 inbox  3 state  4 index
-- ARGV  1 thread name  2.. signal ids; none = all that wait
--
-- Replies
--   {'cancelled', {signal id, ...}}

-- @include thread-lease
-- @include inbox-entries

local chosen
for at = 2, #ARGV do
  chosen = chosen or {}
  chosen[ARGV[at]] = true
end
local owned = redis.call('EXISTS', KEYS[1]) == 1
local cancelled = cancel_waiting(KEYS[2], KEYS[3], KEYS[4], ARGV[1], owned, chosen)
if not owned and redis.call('XLEN', KEYS[2]) == 0 then redis.call('DEL', KEYS[2], KEYS[3]) end
return {'cancelled', cancelled}
