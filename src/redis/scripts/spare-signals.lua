-- Says for a grant, which may be over, that its run did not die of the signals that it was given.
--
-- KEYS  1 state
-- ARGV  1 token
--
-- Replies
--   {'spared'}

-- @include inbox-entries

close_deliveries(KEYS[1], ARGV[1])
return {'spared'}
