-- Removes what dead processes left on a stream: consumers with nothing pending, and private groups of the original
-- backend's fan-out subscribers. A live one that is removed by mistake comes back with its next read.
--
-- KEYS[1]  stream
-- ARGV[1]  our consumer, which stays
-- ARGV[2]  a consumer that was silent for this long is dead, ms
-- ARGV[3]  a fan-out group whose consumers were silent for this long is dead, ms
-- Reply    { consumers removed, groups removed }
local removed = { 0, 0 }
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if groups.err then
  return removed
end
local function fields(row)
  local info = {}
  for at = 1, #row, 2 do
    info[row[at]] = row[at + 1]
  end
  return info
end

for g = 1, #groups do
  local group = fields(groups[g])['name']
  local private = string.sub(group, 1, 9) == '__fanout-'
  local consumers = redis.call('XINFO', 'CONSUMERS', KEYS[1], group)
  local dead = private and #consumers > 0
  for c = 1, #consumers do
    local consumer = fields(consumers[c])
    if private then
      dead = dead and consumer['idle'] > tonumber(ARGV[3])
    elseif consumer['name'] ~= ARGV[1] and consumer['pending'] == 0 and consumer['idle'] > tonumber(ARGV[2]) then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, consumer['name'])
      removed[1] = removed[1] + 1
    end
  end
  if dead then
    redis.call('XGROUP', 'DESTROY', KEYS[1], group)
    removed[2] = removed[2] + 1
  end
end
return removed
