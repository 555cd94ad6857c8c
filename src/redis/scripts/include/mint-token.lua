-- mint_token(fence): the next fencing token of a slot, as text (L5).
--   fence: the slot's counter. Should it vanish, the server's time in microseconds leads on from it, so tokens grow
--   over expiry, eviction and restarts.
-- Lua numbers are doubles, exact up to 2^53; tostring() would keep 14 digits of them, hence the format.
local function mint_token(fence)
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call('GET', fence)) or 0
  local next_token = math.max(last + 1, now)
  if next_token >= 9007199254740992 then error('fencing counter ' .. fence .. ' is out of range') end
  local text = string.format('%.0f', next_token)
  redis.call('SET', fence, text, 'PX', 604800000) -- a week: longer than any lease, and bounds the memory
  return text
end
