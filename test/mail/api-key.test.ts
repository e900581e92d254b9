import test from 'ava';
import {apiKeyHash, apiKeyMode, createApiKey, defaultScopes, scopes} from '../../src/mail/api-key.ts';

test('a key consists of its mode, 32 random characters and a checksum', t => {
	for (const mode of ['live', 'test'] as const) {
		const key = createApiKey(mode);
		t.regex(key, new RegExp(`^key_${mode}_[0-9A-Za-z]{38}$`));
		t.is(apiKeyMode(key), mode);
		t.not(createApiKey(mode), key);
	}
});

test('a key with any character changed is invalid', t => {
	const key = createApiKey('live');
	for (let index = 0; index < key.length; index++) {
		for (const character of '0Zz_ é') {
			const changed = key.slice(0, index) + character + key.slice(index + 1);
			t.is(apiKeyMode(changed), changed === key ? 'live' : null, changed);
		}
	}
	t.is(apiKeyMode(key.replace('key_live_', 'key_test_')), null);
});

for (const text of [
	'',
	'key_live_',
	`key_live_${'a'.repeat(37)}`,
	`key_live_${'a'.repeat(39)}`,
	`\n${createApiKey('live')}`,
]) {
	test(`rejects ${JSON.stringify(text.slice(0, 20))} of ${text.length} characters`, t => {
		t.is(apiKeyMode(text), null);
	});
}

test('discards bytes from 248 up, so that all characters are equally likely', t => {
	let calls = 0;
	const key = createApiKey('test', size => {
		calls++;
		return new Uint8Array(size).fill(calls === 1 ? 255 : 61);
	});
	t.true(key.startsWith(`key_test_${'z'.repeat(32)}`));
});

test('the hash is SHA-256 in hexadecimal', t => {
	t.is(apiKeyHash('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});

test('default scopes: live keys have all but SMTP submission, test keys can send and read', t => {
	t.deepEqual(
		defaultScopes('live'),
		scopes.filter(scope => scope !== 'messages:submit'),
	);
	t.deepEqual(
		[...defaultScopes('test')],
		[
			'messages:send',
			...['messages:read', 'suppressions:read', 'unsubscribe_groups:read', 'webhooks:read', 'templates:read'],
			...[
				'senders:read',
				'domains:read',
				'contacts:read',
				'usage:read',
				'stats:read',
				'events:read',
				'received:read',
			],
		],
	);
	for (const mode of ['live', 'test'] as const) {
		t.true(defaultScopes(mode).every(scope => scopes.includes(scope)));
	}
});
