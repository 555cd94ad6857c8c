-- Looks at threads of one partition whose time in the index has come. Most have a living owner: they are put off until its lease
-- would end, and it is reminded of what it has not taken. Those that wait for somebody to take them are answered.
--
-- KEYS  1 index  2i lease  2i+1 state, of the thread ARGV[i+1]
-- ARGV  1 instance channel prefix  2.. thread names
--
-- Replies
--   {'sifted', {position, ...}}   from 1, in the order given: to be claimed

-- @include thread-lease

local claimable = {}
for at = 1, #ARGV - 1 do
  local name, lease, state = ARGV[at + 1], KEYS[2 * at], KEYS[2 * at + 1]
  local owner = redis.call('GET', lease)
  if not owner or redis.call('HGET', state, 'offered') == owner then
    claimable[#claimable + 1] = at
  elseif waking(state) == 0 then
    redis.call('ZREM', KEYS[1], name)
  else
    redis.call('ZADD', KEYS[1], 'XX', lease_end(lease), name)
    if redis.call('HEXISTS', state, 'unread') == 1 then ring(ARGV[1], owner, 'arrival ' .. name) end
  end
end
return {'sifted', claimable}
