import test from 'ava';
import {sourcesFor} from '../../../src/queue/pace/choose-route.ts';

const source = (address: string) => ({address, hostname: null});
const many = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '2001:db8::1', '2001:db8::2'].map(source);
const domains = Array.from({length: 3000}, (_, n) => `d${n}.test`);

test('always chooses the same source of each address family for a destination', t => {
	for (const domain of domains.slice(0, 50)) {
		const chosen = sourcesFor(many, domain);
		t.deepEqual(
			chosen.map(({address}) => address.includes(':')),
			[false, true],
		);
		t.deepEqual(sourcesFor([...many].reverse(), domain), chosen);
	}

	t.deepEqual(sourcesFor([], 'd.test'), []);
	t.deepEqual(sourcesFor([source('::1')], 'd.test'), [source('::1')]);
});

test('spreads destinations over all sources', t => {
	for (const {address} of many) {
		const share = domains.filter(domain => sourcesFor(many, domain).some(one => one.address === address)).length;
		t.true(share > domains.length / (address.includes(':') ? 2 : 3) - 300, `${address} ${share}`);
	}
});

test('moves destinations only to a newly added source', t => {
	const more = [...many, source('192.0.2.4')];
	for (const domain of domains) {
		const before = sourcesFor(many, domain);
		const after = sourcesFor(more, domain);
		t.true(after[0]?.address === before[0]?.address || after[0]?.address === '192.0.2.4');
		t.is(after[1], before[1]);
	}
});
