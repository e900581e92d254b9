import {randomBytes} from 'node:crypto';
import test from 'ava';
import {createVault} from '../../src/store/sealed.ts';

const [one, two] = [randomBytes(32), randomBytes(32)];

test('a sealed secret opens only for its owner and does not contain its text', t => {
	const vault = createVault({current: 1, keys: {1: one}});
	const sealed = vault.seal('whe_a', 'whsec_text');
	t.is(vault.open('whe_a', sealed), 'whsec_text');
	t.false(sealed.includes('text'));
	t.throws(() => vault.open('whe_b', sealed));
	const changed = sealed.at(-2) === 'A' ? 'B' : 'A';
	t.throws(() => vault.open('whe_a', sealed.slice(0, -2) + changed + sealed.slice(-1)));
});

test('after a rotation, old keys still open secrets and the current one seals', t => {
	const sealed = createVault({current: 1, keys: {1: one}}).seal('dkm_a', 'pem');
	const rotated = createVault({current: 2, keys: {1: one, 2: two}});
	t.is(rotated.open('dkm_a', sealed), 'pem');
	t.true(rotated.seal('dkm_a', 'pem').startsWith('v1.2.'));
	t.throws(() => createVault({current: 2, keys: {2: two}}).open('dkm_a', sealed), {message: /sealed with key 1/});
	t.throws(() => createVault({current: 2, keys: {2: two}}).open('dkm_a', sealed.replace('v1.1.', 'v1.constructor.')));
});

test('an HMAC depends on key, purpose and text; that of the sealing key comes first', t => {
	const [mac = ''] = createVault({current: 1, keys: {1: one}}).macs('a', 'text');
	const rotated = createVault({current: 2, keys: {1: one, 2: two}}).macs('a', 'text');
	t.is(rotated.length, 2);
	t.is(rotated[1], mac);
	const others = [rotated[0], ...createVault({current: 1, keys: {1: one}}).macs('b', 'text')];
	t.false(others.includes(mac));
	// The same key has one name, whatever id a node gives it.
	t.deepEqual(createVault({current: 7, keys: {7: one}}).macs('a', 'text'), [mac]);
});

test('rereads the keys when a secret needs a newer one', t => {
	let reads = 0;
	const later = {current: 2, keys: {1: one, 2: two}};
	const vault = createVault(
		{current: 1, keys: {1: one}},
		{
			reread() {
				reads++;
				return later;
			},
		},
	);
	t.is(vault.open('a', vault.seal('a', 'old')), 'old');
	t.is(reads, 0);
	t.is(vault.open('a', createVault(later).seal('a', 'new')), 'new');
	t.is(vault.current(), 2);
	t.is(vault.open('a', createVault(later).seal('a', 'again')), 'again');
	t.is(reads, 1);
	t.throws(() => vault.open('a', 'v1.3.AAAA'), {message: /sealed with key 3/});
});
