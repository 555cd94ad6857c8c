/** The hash slot of a key in Redis Cluster: CRC16 (XMODEM) of its hash tag, modulo 16384. */

import { hashTag } from './keys.ts';

const table = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

export function keySlot(key: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTag(key))) crc = ((crc << 8) & 0xffff) ^ (table[(crc >> 8) ^ byte] ?? 0);
  return crc % 16384;
}
