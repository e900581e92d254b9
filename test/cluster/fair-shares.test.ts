import test from 'ava';
import fc from 'fast-check';
import {fairShares, shareNow, wantedNow} from '../../src/cluster/exchange.ts';

type Part = Parameters<typeof fairShares>[2][number];

const parts = (...wants: number[]): Part[] => wants.map((want, index) => ({node: `n${index}`, wants: want, slots: 0}));
const sharesOf = (total: number, ...wants: number[]) => {
	const shares = fairShares('site', total, parts(...wants));
	return wants.map((_, index) => shares.get(`n${index}`) ?? 0);
};
const sum = (numbers: Iterable<number>) => [...numbers].reduce((all, one) => all + one, 0);

test('who wants little gets it, the others share what is left evenly', t => {
	t.deepEqual(sharesOf(12, 1, 20, 20, 3), [1, 4, 4, 3]);
	t.deepEqual(sharesOf(100, 1, 20, 3), [1, 20, 3]);
	t.deepEqual(sharesOf(0, 5, 5), [0, 0]);
	t.is(sum(sharesOf(2, 9, 9, 9)), 2);
});

test('what cannot be divided goes to the same nodes each time, to others at other sites', t => {
	const winners = Array.from({length: 300}, (_, site) => {
		const shares = fairShares(`site${site}`, 1, parts(2, 2, 2));
		t.deepEqual(shares, fairShares(`site${site}`, 1, parts(2, 2, 2).toReversed()));
		return [...shares].find(([, share]) => share === 1)?.[0];
	});
	for (const {node} of parts(2, 2, 2)) {
		t.true(winners.filter(winner => winner === node).length > 60);
	}
});

test('shares are never more than wanted or there is, and nothing is left while somebody wants it', t => {
	fc.assert(
		fc.property(fc.nat(60), fc.array(fc.nat(30), {minLength: 1, maxLength: 20}), (total, wants) => {
			const shares = sharesOf(total, ...wants);
			const level = Math.max(...shares);
			return (
				shares.every((share, index) => share <= (wants[index] as number)) &&
				sum(shares) === Math.min(total, sum(wants)) &&
				shares.every((share, index) => share === wants[index] || share >= level - 1)
			);
		}),
	);
	t.pass();
});

test('whatever nodes want, use and tell, all together never have more than there is', t => {
	const step = fc.record({node: fc.nat(4), wants: fc.nat(20), ends: fc.nat(6)});
	fc.assert(
		fc.property(fc.integer({min: 1, max: 20}), fc.array(step, {maxLength: 80}), (total, steps) => {
			const known = new Map<string, Part>();
			const used = new Map<string, number>();
			for (const {node: index, wants, ends} of steps) {
				const node = `n${index}`;
				const using = Math.max(0, (used.get(node) ?? 0) - ends);
				const others = [...known.values()].filter(part => part.node !== node);
				const mine = {node, wants, slots: using};
				const {may, held} = shareNow({of: 'site', total, nodes: 5, mine, others});
				known.set(node, {node, wants, slots: held});
				used.set(node, Math.max(using, may));
				if (sum([...used.values()]) > total || held < (used.get(node) as number)) {
					return false;
				}
			}
			return true;
		}),
	);
	t.pass();
});

test('who has more than its share keeps it until its sessions end, then the other gets it', t => {
	const share = (mine: Part, other: Part) => shareNow({of: 'site', total: 6, nodes: 2, mine, others: [other]});
	const first = {node: 'a', wants: 8, slots: 6};
	t.like(share({node: 'b', wants: 8, slots: 0}, first), {may: 0, held: 0});
	const told = {node: 'b', wants: 8, slots: 0};
	t.like(share(first, told), {may: 3, held: 6});
	t.like(share({...first, slots: 4}, told), {may: 3, held: 4});
	t.like(share(told, {...first, slots: 4}), {may: 2, held: 2});
	t.like(share({...told, slots: 2}, {...first, slots: 3}), {may: 3, held: 3});
});

test('some of what nobody wants is kept for a node that wants nothing yet', t => {
	const share = shareNow({of: 'site', total: 7, nodes: 3, mine: {node: 'a', wants: 1, slots: 0}, others: []});
	t.is(share.may, 3);
});

test('more is wanted at once, less only after a while', t => {
	let wants = wantedNow({wants: 0, idle: 0}, 3);
	t.is(wants.wants, 4);
	const seen: number[] = [];
	for (let round = 0; round < 20; round++) {
		wants = wantedNow(wants, 0);
		seen.push(wants.wants);
	}
	t.deepEqual(seen.slice(0, 5), [4, 4, 4, 4, 2]);
	t.is(seen.at(-1), 0);
});
