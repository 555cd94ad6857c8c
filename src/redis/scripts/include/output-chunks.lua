-- a thread's output: each chunk names the one before it, so that a reader sees when it missed some

local function last_chunk(out)
  local last = redis.call('XREVRANGE', out, '+', '-', 'COUNT', 1)
  return last[1] and last[1][1] or '0-0'
end

local function put_chunk(out, previous, text)
  return redis.call('XADD', out, '*', 'chunk', text, 'after', previous)
end
