-- Sets a limit back to full, a bucket or a window, even for processes that remember what was taken.
--
-- KEYS[1]: the record; ARGV[1]: the milliseconds for which a process may remember one. Returns whether there was a record.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local record = redis.call('GET', KEYS[1])
local function is(pattern) return string.match(record, pattern) end
if record and not is('^%d+:%d+:%d+:%d+[:,%d]*$') and not is('^[wa]:%d+:%d+:%d+:%d+:?%d*$') then
  return redis.error_reply('FOREIGN the value of this record is not one of flowgate')
end
-- No debt since now, by any quota.
local lasts = math.max(tonumber(ARGV[1]), redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[1], '0:' .. now .. ':1:1:' .. now .. ':' .. now, 'PX', string.format('%.0f', lasts))
return record and 1 or 0
