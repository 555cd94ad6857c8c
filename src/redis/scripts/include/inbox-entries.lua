-- entries of an inbox as tables { id (of the entry), id_of_signal, signal, agent, turn, branch, wakes }

local function read_entries(inbox, from, to, count)
  local entries = redis.call('XRANGE', inbox, from, to, 'COUNT', count)
  for at, item in ipairs(entries) do
    local entry = {}
    for i = 1, #item[2], 2 do entry[item[2][i]] = item[2][i + 1] end
    entry.id_of_signal, entry.id = entry.id, item[1]
    entries[at] = entry
  end
  return entries
end

-- Takes an entry out of the inbox and out of every count that it is part of.
local function remove_entry(inbox, state, entry)
  redis.call('XDEL', inbox, entry.id)
  redis.call('HINCRBY', state, 'bytes', -#entry.signal)
  if entry.wakes == '1' then redis.call('HINCRBY', state, 'wake', -1) end
  redis.call('HDEL', state, 'try:' .. entry.id, 'by:' .. entry.id)
end

-- Counts that the grant with this token is given the entry; answers how often it was given. A grant that asks again, since
-- the reply was lost, is given it once: else a bad network would make dead letters of good signals.
local function count_delivery(state, id, token)
  if token ~= '' and redis.call('HGET', state, 'by:' .. id) == token then
    return tonumber(redis.call('HGET', state, 'try:' .. id))
  end
  redis.call('HSET', state, 'by:' .. id, token)
  return redis.call('HINCRBY', state, 'try:' .. id, 1)
end

-- Takes out what no run that is on was given: the signals whose ids are keys of `chosen`, or all. Answers which.
local function cancel_waiting(inbox, state, index, name, owned, chosen)
  local cancelled = {}
  for _, entry in ipairs(read_entries(inbox, '-', '+', 100000)) do
    local given = owned and tonumber(redis.call('HGET', state, 'try:' .. entry.id) or 0) > 0
    if not given and (not chosen or chosen[entry.id_of_signal]) then
      remove_entry(inbox, state, entry)
      cancelled[#cancelled + 1] = entry.id_of_signal
    end
  end
  if tonumber(redis.call('HGET', state, 'wake') or 0) == 0 then redis.call('ZREM', index, name) end
  return cancelled
end
