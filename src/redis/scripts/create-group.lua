-- Makes sure that a consumer group exists.
--
-- A group that vanished comes back where this process last read. When the stream vanished with it, what is there now is
-- all new, and its ids may be lower than the ones seen before: then the group starts at the beginning.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  where a new group begins: `0`, `$` or the last id seen
-- ARGV[3]  idle TTL in ms, 0 = none
-- ARGV[4]  `1` = create the stream when it is missing, `0` = leave it missing
-- Reply    1 created, 0 was there, -1 there is no stream
if ARGV[4] == '0' and redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end

local start = ARGV[2]
local ms, seq = string.match(start, '^(%d+)-(%d+)$')
if ms then
  local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
  if info.err then
    start = '0'
  else
    for at = 1, #info, 2 do
      if info[at] == 'last-generated-id' then
        local lastMs, lastSeq = string.match(info[at + 1], '^(%d+)-(%d+)$')
        lastMs, ms = tonumber(lastMs), tonumber(ms)
        if lastMs < ms or (lastMs == ms and tonumber(lastSeq) < tonumber(seq)) then
          start = '0'
        end
      end
    end
  end
end

local reply = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], start, 'MKSTREAM')
local created = 1
if reply.err then
  if not string.find(reply.err, 'BUSYGROUP', 1, true) then
    return reply
  end
  created = 0
end
if tonumber(ARGV[3]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return created
