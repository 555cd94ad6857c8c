import { describe, expect, test } from 'vitest';

import { isClean, judge } from '../../chaos/checker.ts';
import type { Verdict } from '../../chaos/checker.ts';
import type { History, Note, OutputRow } from '../../chaos/history.ts';
import { abort, accepted, cancel, fault, history, note, run, stopped } from './builder.ts';

const rulesOf = (verdict: Verdict) => verdict.violations.map(({ rule }) => rule);

function judged(facts: Partial<History>): Verdict {
  const verdict = judge(history(facts), 2000);
  expect(isClean(verdict)).toBe(verdict.violations.length + verdict.lost.length + verdict.orderBreaks.length === 0);
  return verdict;
}

/** Only what a finding is about is of interest: all that was noted was sent. */
function ownershipOf(notes: Note[]): Verdict {
  const ids = new Set(notes.flatMap(({ signalId }) => signalId ?? []));
  return judged({ notes, acceptances: accepted([...ids]), faults: [fault(0, 10_000)] });
}

test('a history in which all went well has nothing to find', () => {
  const verdict = judged({
    notes: [...run('1', 1000, ['a', 'b']), ...run('2', 2000, ['c'])],
    acceptances: accepted(['a', 'b', 'c']),
    faults: [fault(1500, 1600, 'a')],
  });
  expect(verdict).toEqual({
    accepted: 3, runs: 2, faults: 1, violations: [], lost: [], duplicates: 0, orderBreaks: [], takeoverMaxMs: 0,
  });
});

describe('one run of a thread at a time', () => {
  test('a run that acts after its successor was granted is found, even before the successor does anything', () => {
    const verdict = ownershipOf([
      note('start', '1', 1000, 1010),
      note('signal', '1', 1000, 2001, { signalId: 'a' }),
      ...run('2', 2000, ['b']),
    ]);
    expect(rulesOf(verdict)).toEqual(['a run acted after the grant of its successor']);
    expect(verdict.violations[0]?.records.join('\n')).toContain('signal a run 1');
  });

  test('a run that acts in the middle of its successor is found', () => {
    const [start, signal, end] = run('2', 2000, ['b']) as [Note, Note, Note];
    const verdict = ownershipOf([note('start', '1', 1000, 1010), start, note('end', '1', 1000, 2015), signal, end]);
    expect(rulesOf(verdict)).toEqual(['a run acted after the grant of its successor']);
  });

  test('a run that is two owners late is found once', () => {
    const late = note('signal', '1', 1000, 3100, { signalId: 'a' });
    const verdict = ownershipOf([note('start', '1', 1000, 1010), ...run('2', 2000, ['b']), ...run('3', 3000, ['c']), late]);
    expect(rulesOf(verdict)).toEqual(['a run acted after the grant of its successor']);
  });

  test('a note that was made in time and arrived late is none', () => {
    const frozen = note('signal', '1', 1000, 1020, { signalId: 'a' });
    expect(rulesOf(ownershipOf([note('start', '1', 1000, 1010), ...run('2', 4000, ['b']), frozen]))).toEqual([]);
  });

  test('runs of different threads have nothing to do with each other', () => {
    const verdict = judged({
      notes: [note('start', '1', 1000, 1010), ...run('2', 2000, [], { thread: 'u' }), note('end', '1', 1000, 2500)],
    });
    expect(rulesOf(verdict)).toEqual([]);
  });
});

describe('tokens', () => {
  test('a token that is lower than that of the run before is found', () => {
    const backward = [note('start', '2', 2000, 2010), note('start', '1', 1500, 2600)];
    expect(rulesOf(ownershipOf(backward))).toContain('a later run has a lower token');
  });

  test('two runs with one token are found', () => {
    expect(rulesOf(ownershipOf([...run('1', 1000, []), ...run('2', 1000, [])]))).toContain('two runs with the same token');
  });

  test('a run without a token, or with another one later, is found', () => {
    expect(rulesOf(ownershipOf(run('1', 0, [])))).toEqual(['a run without a token']);
    expect(rulesOf(ownershipOf([note('start', '1', 1000, 1010), note('end', '1', 1001, 1020)]))).toEqual(['the token of a run changed']);
  });

  test('a run that begins twice is found', () => {
    expect(rulesOf(ownershipOf([...run('1', 1000, []), note('start', '1', 1000, 1100)]))).toEqual([
      'a run began twice, or acted without a beginning',
    ]);
  });
});

describe('signals', () => {
  test('one that was accepted and never ran is lost', () => {
    const verdict = judged({ notes: run('1', 1000, ['a']), acceptances: accepted(['a', 'b']) });
    expect(verdict.lost.map(({ records }) => records.join())).toEqual([expect.stringContaining('for b')]);
  });

  test('one that was discarded or dead-lettered is not lost', () => {
    const acceptances = [...accepted(['a']), ...accepted(['b'], { action: 'discard' })];
    expect(judged({ acceptances, deadLettered: new Set(['a']) }).lost).toEqual([]);
  });

  test('one that ran again after a fault is a duplicate, and nothing worse', () => {
    const verdict = judged({
      notes: [...run('1', 1000, ['a']), ...run('2', 4000, ['a'], { attempt: 2, pod: 'b' })],
      acceptances: accepted(['a']),
      faults: [fault(1030, 3000, 'a')],
    });
    expect(verdict).toMatchObject({ duplicates: 1, violations: [], lost: [], orderBreaks: [] });
  });

  test('one that ran again and was not counted is found', () => {
    const verdict = judged({
      notes: [...run('1', 1000, ['a']), ...run('2', 4000, ['a'])],
      acceptances: accepted(['a']),
      faults: [fault(1030, 3000, 'a')],
    });
    expect(rulesOf(verdict)).toEqual(['a signal was repeated and not counted']);
    expect(verdict.duplicates).toBe(1);
  });

  test('one that ran again without a fault, or with one of another pod only, is found', () => {
    const notes = [...run('1', 1000, ['a']), ...run('2', 4000, ['a'], { attempt: 2 })];
    const repeated = ['a signal was repeated without a fault'];
    expect(rulesOf(judged({ notes, acceptances: accepted(['a']) }))).toEqual(repeated);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a']), faults: [fault(1030, 3000, 'b')] }))).toEqual(repeated);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a']), faults: [fault(1030, 3000)] }))).toEqual([]);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a']), stalls: [fault(1030, 3000, 'a')] }))).toEqual([]);
  });

  test('one that ran twice in one run is found', () => {
    expect(rulesOf(judged({ notes: run('1', 1000, ['a', 'a']), acceptances: accepted(['a']), faults: [fault(0, 9000)] }))).toEqual([
      'a signal ran twice in one run',
    ]);
  });

  test('one that was discarded, belongs to another thread, or was never sent must not run', () => {
    const notes = run('1', 1000, ['a']);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a'], { action: 'discard' }) }))).toEqual(['a signal ran that was discarded']);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a'], { thread: 'u' }) }))).toEqual(['a signal ran on another thread']);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a'], { agent: 'y' }) }))).toEqual(['a signal was run by another agent']);
    expect(rulesOf(judged({ notes }))).toEqual(['a signal ran that nobody sent']);
    expect(rulesOf(judged({ notes, unanswered: new Set(['a']) }))).toEqual([]);
  });
});

describe('order', () => {
  const notes = [...run('1', 1000, ['b']), ...run('2', 2000, ['a'])];

  test('what a sender sent later and ran first is found', () => {
    const { orderBreaks } = judged({ notes, acceptances: accepted(['a', 'b']) });
    expect(orderBreaks.map(({ rule }) => rule)).toEqual(['a later signal (current) ran first']);
    expect(judged({ notes, acceptances: accepted(['a', 'b'], { turn: 'next' }) }).orderBreaks).toHaveLength(1);
  });

  test('it is found within one run and past a signal that never ran', () => {
    expect(judged({ notes: run('1', 1000, ['b', 'a']), acceptances: accepted(['a', 'b']) }).orderBreaks).toHaveLength(1);
    expect(judged({ notes, acceptances: accepted(['a', 'x', 'b']) }).orderBreaks).toHaveLength(1);
  });

  test('signals of two senders, or a message and a queued turn, have no order', () => {
    const [a, b] = accepted(['a', 'b']) as [ReturnType<typeof accepted>[0], ReturnType<typeof accepted>[0]];
    expect(judged({ notes, acceptances: [a, { ...b, sender: 'other' }] }).orderBreaks).toEqual([]);
    expect(judged({ notes, acceptances: [{ ...a, turn: 'next' }, b] }).orderBreaks).toEqual([]);
  });

  test('a repeat in another order is none', () => {
    const repeat = [...run('1', 1000, ['a', 'b']), ...run('2', 2000, ['b', 'a'], { attempt: 2 })];
    expect(judged({ notes: repeat, acceptances: accepted(['a', 'b']), faults: [fault(1000, 2000)] }).orderBreaks).toEqual([]);
  });
});

describe('signals that are taken back', () => {
  const lostWith = (facts: Partial<History>) => judged({ acceptances: accepted(['a']), ...facts }).lost.length;

  test('one that a cancel or an abort took is not lost; others still are', () => {
    expect(lostWith({ withdrawals: [cancel(1000, ['a'])] })).toBe(0);
    expect(lostWith({ withdrawals: [abort(1000, undefined, { answer: { withdrawn: ['a'] } })] })).toBe(0);
    expect(lostWith({ withdrawals: [cancel(1000, ['b'])] })).toBe(1);
    expect(lostWith({ withdrawals: [abort(1000, '1')] })).toBe(1);
  });

  test('one that an unanswered cancel may have taken is not lost; one that it can not have, is', () => {
    const unanswered = (rest: object) => lostWith({ withdrawals: [{ thread: 't', pod: 'b', fromMs: 1000, toMs: 4000, ...rest }] });
    expect(unanswered({})).toBe(0);
    expect(unanswered({ signalIds: ['a'] })).toBe(0);
    expect(unanswered({ signalIds: ['b'] })).toBe(1);
    expect(unanswered({ signalIds: [], stops: 'any' })).toBe(1);
    expect(unanswered({ thread: 'u' })).toBe(1);
    expect(unanswered({ fromMs: -20_000, toMs: -19_000 })).toBe(1);
    // It may have waited for as long as nothing ran that may not run before it.
    expect(unanswered({ fromMs: 20_000, toMs: 21_000 })).toBe(0);
    const overtaken = { acceptances: accepted(['a', 'b']), notes: run('1', 15_000, ['b']) };
    const withdrawnFrom = (fromMs: number) => lostWith({ ...overtaken, withdrawals: [{ thread: 't', pod: 'b', fromMs, toMs: fromMs + 1000 }] });
    expect(withdrawnFrom(10_000)).toBe(0);
    expect(withdrawnFrom(20_000)).toBe(1);
  });

  test('an answer that a fault was in the way of may not name all', () => {
    const withdrawals = [cancel(1000, [])];
    expect(lostWith({ withdrawals, faults: [fault(900, 1100)] })).toBe(0);
    expect(lostWith({ withdrawals, faults: [fault(900, 1100, 'b')] })).toBe(0);
    expect(lostWith({ withdrawals, faults: [fault(900, 1100, 'a')] })).toBe(1);
    expect(lostWith({ withdrawals, faults: [fault(1100, 1200)] })).toBe(1);
  });

  test('one that was given to a run that was stopped is not lost, as long as that says so', () => {
    const facts = { given: [{ thread: 't', runId: '1', signalIds: ['a'] }], withdrawals: [abort(1000, '1')] };
    expect(lostWith({ ...facts, output: [stopped('1')] })).toBe(0);
    expect(lostWith(facts)).toBe(1);
    expect(lostWith({ ...facts, output: [{ ...stopped('1'), reason: 'drained' }] })).toBe(1);
  });

  test('one that runs after it was taken back is found', () => {
    const notes = run('1', 1000, ['a']);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a']), withdrawals: [cancel(1000, ['a'])] }))).toEqual(['a signal ran that was taken back']);
    expect(rulesOf(judged({ notes, acceptances: accepted(['a']), withdrawals: [cancel(1100, ['a'])] }))).toEqual([]);
  });
});

describe('runs that are stopped', () => {
  const late = [note('start', '1', 1000, 1010), note('step', '1', 1000, 5000)];

  test('one that goes on after it was stopped is found, where no fault is in the way', () => {
    expect(rulesOf(judged({ notes: late, withdrawals: [abort(1500, '1')] }))).toEqual(['a run went on after it was stopped']);
    expect(rulesOf(judged({ notes: late, withdrawals: [abort(4500, '1')] }))).toEqual([]);
    expect(rulesOf(judged({ notes: late, withdrawals: [abort(1500, '2')] }))).toEqual([]);
    expect(rulesOf(judged({ notes: late, withdrawals: [abort(1500, '1')], faults: [fault(1600, 1700, 'a')] }))).toEqual([]);
    expect(rulesOf(judged({ notes: late, withdrawals: [abort(1500, '1')], faults: [fault(1600, 1700)] }))).toEqual([]);
    expect(rulesOf(judged({ notes: late, withdrawals: [abort(1500, '1')], faults: [fault(1600, 1700, 'b')] }))).toEqual(['a run went on after it was stopped']);
  });

  test('one that nobody asked to stop is found', () => {
    const unasked = ['a run was stopped that nobody asked to stop'];
    expect(rulesOf(judged({ output: [stopped('1')] }))).toEqual(unasked);
    expect(rulesOf(judged({ output: [stopped('1')], withdrawals: [abort(1000, undefined, { stops: '2' })] }))).toEqual(unasked);
    expect(rulesOf(judged({ output: [stopped('1')], withdrawals: [cancel(1000, [])] }))).toEqual(unasked);
    expect(rulesOf(judged({ output: [stopped('1')], withdrawals: [abort(1000, undefined, { stops: '1' })] }))).toEqual([]);
  });
});

describe('output', () => {
  const row = (runId: string, type: string, text?: string): OutputRow => ({ thread: 't', runId, type, ...(text === undefined ? {} : { text }) });
  const outputRules = (output: OutputRow[]) => rulesOf(judged({ output }));
  const whole = [row('1', 'start'), row('1', 'text-delta', 'a'), row('1', 'finish')];

  test('runs that follow each other and end are fine, also one that died and was ended by its successor', () => {
    expect(outputRules([...whole, row('2', 'start'), row('2', 'error'), row('3', 'start'), row('3', 'finish')])).toEqual([]);
    expect(outputRules([...whole, row('1', 'error'), row('2', 'finish')])).toEqual([]);
  });

  test('a chunk of a run after its successor began is found', () => {
    expect(outputRules([...whole, row('2', 'start'), row('2', 'finish'), row('1', 'error')])).toEqual(['output of a run after that of its successor']);
  });

  test('a run that never says that it is over is found', () => {
    expect(outputRules([row('1', 'start'), row('2', 'finish')])).toEqual(['a run was followed by another and never said that it was over']);
    expect(outputRules([...whole, row('2', 'start')])).toEqual(['the last run never said that it was over']);
  });

  test('a chunk that is there twice, or after the end, is found', () => {
    expect(outputRules([row('1', 'text-delta', 'a'), row('1', 'text-delta', 'a'), row('1', 'finish')])).toEqual(['a chunk is there twice']);
    expect(outputRules([...whole, row('1', 'text-delta', 'b')])).toEqual(['output of a run that was over']);
  });
});

test('what idle threads left in Redis is found', () => {
  expect(rulesOf(judged({ leftovers: ['lease:t'] }))).toEqual(['an idle thread left something behind']);
});

describe('takeover', () => {
  const cutShort = [note('start', '1', 1000, 1010), note('signal', '1', 1000, 1020, { signalId: 'a' })];
  const taken = run('2', 4000, ['a'], { attempt: 2, pod: 'b' });
  const takeoverOf = (facts: Partial<History>) => judged({ acceptances: accepted(['a']), ...facts }).takeoverMaxMs;

  test('it lasts from the fault to the start of the run that repeats the signals', () => {
    expect(takeoverOf({ notes: [...cutShort, ...taken], faults: [fault(1100, 1200, 'a')] })).toBe(4010 - 1100);
  });

  test('the first of several faults of the owner counts', () => {
    expect(takeoverOf({ notes: [...cutShort, ...taken], faults: [fault(1100, 1200, 'a'), fault(2000, 2100, 'a')] })).toBe(4010 - 1100);
  });

  test('time without Redis is taken off', () => {
    expect(takeoverOf({ notes: [...cutShort, ...taken], faults: [fault(1100, 1200, 'a'), fault(1500, 2500)] })).toBe(4010 - 1100 - 1000);
  });

  test('a fault of a pod that owned nothing, or of a run that got to its end, removed no owner', () => {
    expect(takeoverOf({ notes: [...cutShort, ...taken], faults: [fault(1100, 1200, 'c'), fault(1000, 1200)] })).toBe(0);
    const whole = [...run('1', 1000, ['a']), ...run('2', 4000, ['b'])];
    expect(takeoverOf({ notes: whole, acceptances: accepted(['a', 'b']), faults: [fault(1015, 1200, 'a')] })).toBe(0);
  });

  test('a thread that a peer leaves alone, though nothing is wrong with it, is found', () => {
    // Its owner died at 1100, so that its lease had ended at 3100; a sweep takes 1550 ms at most.
    const slow = { notes: [...cutShort, ...run('2', 6000, ['a'], { attempt: 2, pod: 'b' })], acceptances: accepted(['a']) };
    const died = fault(1100, 1200, 'a');
    const known = fault(100, 200, 'b');
    const found = (...faults: ReturnType<typeof fault>[]) => rulesOf(judged({ ...slow, faults: [known, ...faults] })).map(rule => /for (\d+) ms/.exec(rule)?.[1]);
    expect(found(died)).toEqual([`${6010 - 3100}`]);
    // Whoever was only hit, and did not die, may have gone on.
    expect(found({ ...died, kind: 'network lost' })).toEqual([]);
    // The peer itself, or the store, was busy with something else most of the time.
    expect(found(died, fault(3200, 4000, 'b'))).toEqual([]);
    expect(found(died, fault(3200, 4000))).toEqual([]);
    // Another peer may have taken it and have died with it, but not for all of the time.
    expect(found(died, fault(3200, 3300, 'c'))).toEqual([]);
    expect(found(died, fault(3200, 3300, 'a'))).toEqual([]);
    expect(found(died, fault(1300, 1400, 'c'))).toEqual([`${6010 - 3100}`, `${6010 - 3400}`]);
  });
});
