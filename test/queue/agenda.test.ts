import test from 'ava';
import fc from 'fast-check';
import {Agenda, type Timed} from '../../src/queue/agenda.ts';

const command = fc.oneof(
	fc.record({kind: fc.constant('set' as const), item: fc.nat(20), at: fc.nat(1000)}),
	fc.record({kind: fc.constant('remove' as const), item: fc.nat(20)}),
	fc.record({kind: fc.constant('next' as const), now: fc.nat(1000)}),
);

test('returns items in the same order as a sorted list', t => {
	fc.assert(
		fc.property(fc.array(command, {maxLength: 300}), commands => {
			const items: Timed[] = Array.from({length: 21}, () => ({at: null, index: 0}));
			const agenda = new Agenda<Timed>();
			const list = new Map<Timed, number>();
			for (const one of commands) {
				if (one.kind === 'set') {
					agenda.set(items[one.item] as Timed, one.at);
					list.set(items[one.item] as Timed, one.at);
				} else if (one.kind === 'remove') {
					agenda.remove(items[one.item] as Timed);
					list.delete(items[one.item] as Timed);
				} else {
					const first = Math.min(...list.values());
					const item = agenda.next(one.now);
					if (first > one.now ? item !== undefined : !item || list.get(item) !== first || item.at !== null) {
						return false;
					}
					list.delete(item as Timed);
				}
				if (agenda.size !== list.size) {
					return false;
				}
			}
			return true;
		}),
	);
	t.pass();
});
