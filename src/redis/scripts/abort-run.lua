-- Asks the owner of a thread, wherever it is, to stop its run, and may discard what waits behind it. The mark stays until that
-- run is over, so that a lost hint only delays it to the run's next step.
--
-- KEYS  1 lease  2 token  3 inbox  4 state  5 index
-- ARGV  1 thread name  2 only this run, '' = any  3 instance channel prefix  4 1 = discard what waits
--
-- Replies
--   {'asked', run id, {id of a discarded signal, ...}}
--   {'none'}

-- @include thread-lease
-- @include inbox-entries

local owner = redis.call('GET', KEYS[1])
if not owner or (ARGV[2] ~= '' and run_of(owner) ~= ARGV[2]) then return {'none'} end
local cancelled = {}
if ARGV[4] == '1' then cancelled = cancel_waiting(KEYS[3], KEYS[4], KEYS[5], ARGV[1], redis.call('GET', KEYS[2])) end
redis.call('HSET', KEYS[4], 'abort', owner)
ring(ARGV[3], owner, 'abort ' .. run_of(owner) .. ' ' .. ARGV[1])
return {'asked', run_of(owner), cancelled}
