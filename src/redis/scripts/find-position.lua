-- Where a stream is.
--
-- KEYS[1]  stream
-- Reply    { last id, entries ever added, entries held }; `0-0` and zeros when there is no stream
local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
if info.err then
  if string.find(info.err, 'no such key', 1, true) then
    return { '0-0', 0, 0 }
  end
  return info
end
local stream = {}
for at = 1, #info, 2 do
  stream[info[at]] = info[at + 1]
end
return { stream['last-generated-id'], stream['entries-added'] or stream['length'], stream['length'] }
