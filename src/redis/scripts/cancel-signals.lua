-- Takes waiting signals out of the inbox on request. What the run that is on was given stays its own.
--
-- KEYS  1 lease  2 inbox  3 state  4 index
-- ARGV  1 thread name  2.. signal ids; none = all that wait
--
-- Replies
--   {'cancelled', {signal id, ...}}

-- @include thread-lease
-- @include inbox-entries

local chosen = {}
for at = 2, #ARGV do chosen[ARGV[at]] = true end
local owned = redis.call('EXISTS', KEYS[1]) == 1

local cancelled = {}
for _, entry in ipairs(read_entries(KEYS[2], '-', '+', 100000)) do
  local given = owned and tonumber(redis.call('HGET', KEYS[3], 'try:' .. entry.id) or 0) > 0
  if not given and (#ARGV < 2 or chosen[entry.id_of_signal]) then
    remove_entry(KEYS[2], KEYS[3], entry)
    cancelled[#cancelled + 1] = entry.id_of_signal
  end
end
if waking(KEYS[3]) == 0 then redis.call('ZREM', KEYS[4], ARGV[1]) end
if not owned and redis.call('XLEN', KEYS[2]) == 0 then redis.call('DEL', KEYS[2], KEYS[3]) end
return {'cancelled', cancelled}
