-- Hands back entries that were read and not delivered, so that another member of the group gets them at once.
--
-- If nobody has read past them the group's position goes back, which keeps the order. Otherwise they are made so idle
-- that any sibling may claim them now. Either way the stream is touched: whoever waits for news of it looks again.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  the position before the first of them
-- ARGV[4..] their ids in ascending order
-- Reply    1 the position went back, 0 left for siblings to claim
local key, group = KEYS[1], ARGV[1]
local groups = redis.pcall('XINFO', 'GROUPS', key)
if groups.err then
  return 0
end
local position
for row = 1, #groups do
  local info = {}
  for at = 1, #groups[row], 2 do
    info[groups[row][at]] = groups[row][at + 1]
  end
  if info['name'] == group then
    position = info['last-delivered-id']
  end
end
if not position then
  return 0
end

local ids = {}
for at = 4, #ARGV do
  ids[#ids + 1] = ARGV[at]
end
local restored = 0
if position == ids[#ids] then
  redis.call('XACK', key, group, unpack(ids))
  redis.call('XGROUP', 'SETID', key, group, ARGV[3])
  restored = 1
else
  for at = 1, #ids do
    local rows = redis.call('XPENDING', key, group, ids[at], ids[at], 1, ARGV[2])
    if #rows == 1 then
      redis.call('XCLAIM', key, group, ARGV[2], 0, ids[at], 'IDLE', 86400000, 'RETRYCOUNT', 0, 'JUSTID')
    end
  end
end

local ttl = redis.call('PTTL', key)
redis.call('PEXPIRE', key, ttl > 0 and ttl or 1000)
if ttl < 0 then
  redis.call('PERSIST', key)
end
return restored
