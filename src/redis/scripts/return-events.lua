-- Hands back entries that were read and not delivered, so that another member of the group gets them at once.
--
-- If nobody has read past them the group's position goes back, which keeps the order, and the stream is touched, so that
-- whoever waits for news of it looks again. Otherwise they are made so idle that any sibling may claim them now, and the
-- siblings are told.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  the position before the first of them
-- ARGV[4]  idle time, in ms, that marks an entry as handed back
-- ARGV[5]  channel to tell siblings on: `<stream> <newline> <group>`
-- ARGV[6..] their ids in ascending order
-- Reply    1 the position went back, 0 left for siblings to claim
local key, group, consumer = KEYS[1], ARGV[1], ARGV[2]
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

-- What a sibling has claimed in the meantime is not ours to hand back.
local ids = {}
for at = 6, #ARGV do
  if #redis.call('XPENDING', key, group, ARGV[at], ARGV[at], 1, consumer) == 1 then
    ids[#ids + 1] = ARGV[at]
  end
end
if #ids == 0 then
  return 0
end

if position == ARGV[#ARGV] and #ids == #ARGV - 5 then
  redis.call('XACK', key, group, unpack(ids))
  redis.call('XGROUP', 'SETID', key, group, ARGV[3])
  local ttl = redis.call('PTTL', key)
  redis.call('PEXPIRE', key, ttl > 0 and ttl or 1000)
  if ttl < 0 then
    redis.call('PERSIST', key)
  end
  return 1
end

for at = 1, #ids do
  redis.call('XCLAIM', key, group, consumer, 0, ids[at], 'IDLE', ARGV[4], 'RETRYCOUNT', 0, 'JUSTID')
end
-- Who may not publish still hands back: siblings then find the entries in their next round.
redis.pcall('PUBLISH', ARGV[5], key .. '\n' .. group)
return 0
