-- Puts dead letters back into the inbox, as if they had just been accepted: their deliveries count from the start.
--
-- KEYS  1 lease  2 inbox  3 state  4 index  5 dead  6 dead index
-- ARGV  1 thread name  2 instance channel prefix  3 orphan channel  4.. ids of dead letters; none = all
--
-- Replies
--   {'replayed', number}

-- @include thread-lease
-- @include inbox-entries

local name = ARGV[1]
local chosen = {}
for at = 4, #ARGV do chosen[ARGV[at]] = true end

local replayed = 0
for _, letter in ipairs(read_entries(KEYS[5], '-', '+', 100000)) do
  if #ARGV < 4 or chosen[letter.id] then
    redis.call('XADD', KEYS[2], '*', 'signal', letter.signal, 'id', letter.id_of_signal, 'agent', letter.agent,
      'turn', letter.turn, 'branch', letter.branch, 'wakes', '1')
    redis.call('HINCRBY', KEYS[3], 'bytes', #letter.signal)
    redis.call('HINCRBY', KEYS[3], 'wake', 1)
    redis.call('XDEL', KEYS[5], letter.id)
    replayed = replayed + 1
  end
end
if redis.call('XLEN', KEYS[5]) == 0 then
  redis.call('DEL', KEYS[5])
  redis.call('ZREM', KEYS[6], name)
end
if replayed == 0 then return {'replayed', 0} end
local owner = redis.call('GET', KEYS[1])
if owner then
  look_at(KEYS[4], name, KEYS[1])
  redis.call('HSET', KEYS[3], 'unread', '1')
  ring(ARGV[2], owner, 'arrival ' .. name)
else
  redis.call('ZADD', KEYS[4], now_ms(), name)
  redis.call('SPUBLISH', ARGV[3], name)
end
return {'replayed', replayed}
