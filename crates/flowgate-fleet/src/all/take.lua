-- Takes units from several buckets: from all of them, or from none. It follows bucket.lua.
--
-- KEYS: the records. ARGV, for each of them: count, period, burst, the last debt that the caller has seen with its time, and the units.
-- Returns the time, 1 if the units were taken and 0 if not, and then for each bucket: the debt, how much of it the record had
-- forgotten, and the time of the last reset.
local buckets, enough = {}, true
for i, key in ipairs(KEYS) do
  local at = 6 * i - 6
  local count, period, burst = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local bucket = read(key, count, period)
  if not bucket then return foreign(key) end
  local seen_at = tonumber(ARGV[at + 5])
  local seen = left(tonumber(ARGV[at + 4]), seen_at, count)
  if bucket.void > 0 and seen_at <= bucket.void then seen = 0 end
  bucket.healed = math.max(seen - bucket.debt, 0)
  if bucket.healed > 0 then bucket.debt, bucket.changed = seen, true end
  bucket.cost = ARGV[at + 6] * period
  enough = enough and bucket.cost <= burst * period - bucket.debt
  buckets[i] = bucket
end
local reply = {now, enough and 1 or 0}
for _, bucket in ipairs(buckets) do
  if enough then bucket.debt, bucket.changed = bucket.debt + bucket.cost, true end
  if bucket.changed and bucket.debt > 0 then store(bucket, bucket.debt) end
  for _, field in ipairs({'debt', 'healed', 'reset'}) do reply[#reply + 1] = bucket[field] end
end
return reply
