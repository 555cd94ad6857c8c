/** Something that a history shows and that must not be. */
export interface Finding {
  readonly rule: string;
  readonly thread: string;
  /** The records that show it, readable. */
  readonly records: readonly string[];
}

export function describeFinding({ rule, thread, records }: Finding): string {
  return [`${thread}: ${rule}`, ...records.map(record => `    ${record}`)].join('\n');
}
