-- Asks the owner of a thread, wherever it is, to stop its run. The mark stays until that run is over, so that a lost hint
-- only delays it to the run's next step.
--
-- KEYS  1 lease  2 state
-- ARGV  1 thread name  2 only this run, '' = any  3 instance channel prefix
--
-- Replies
--   {'asked', run id}
--   {'none'}

-- @include thread-lease

local owner = redis.call('GET', KEYS[1])
if not owner or (ARGV[2] ~= '' and run_of(owner) ~= ARGV[2]) then return {'none'} end
redis.call('HSET', KEYS[2], 'abort', owner)
ring(ARGV[3], owner, 'abort ' .. run_of(owner) .. ' ' .. ARGV[1])
return {'asked', run_of(owner)}
