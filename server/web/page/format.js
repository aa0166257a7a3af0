// Numbers as text for people. Numbers of 64 bits come as strings.

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const digits = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});

/** 1234567 → "1,234,567". */
export const count = (value) => whole.format(Number(value));

/** Three digits: "0.52", "41.7", "1,230". Nothing known: "–". */
export function rate(value) {
  if (value === null) return '–';
  return value >= 100 ? whole.format(value) : digits.format(value);
}

/** "12.3 MB". */
export function bytes(value) {
  const number = Number(value);
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  const power = number < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(number) / 3));
  return `${digits.format(number / 1000 ** power)} ${units[power]}`;
}

/** 0.123 → "12.3 %". Nothing known: "–". */
export function percent(share) {
  if (share === null) return '–';
  const value = 100 * share;
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** "4.2 s", "2 min 5 s", "3 h 12 min", "4 d 3 h". */
export function period(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const total = Math.round(seconds);
  const first = units.findIndex(([, size]) => total >= size);
  const [name, size] = units[first];
  const text = `${Math.floor(total / size)} ${name}`;
  const next = units[first + 1];
  const rest = next ? Math.floor((total % size) / next[1]) : 0;
  return rest > 0 ? `${text} ${rest} ${next[0]}` : text;
}

/** "1 job", "3 jobs". */
export const things = (number, thing) =>
  `${count(number)} ${thing}${Number(number) === 1 ? '' : 's'}`;

/** The time of day, "14:03:11". */
export const clock = (date) => date.toTimeString().slice(0, 8);

/** [0, 2, 3, 4] → "0, 2–4". */
export function ranges(numbers) {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const texts = [];
  for (let i = 0; i < sorted.length; ++i) {
    const first = sorted[i];
    while (sorted[i + 1] === sorted[i] + 1) ++i;
    texts.push(first === sorted[i] ? `${first}` : `${first}–${sorted[i]}`);
  }
  return texts.length > 12 ? `${texts.slice(0, 12).join(', ')} …` : texts.join(', ');
}
