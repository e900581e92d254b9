import {randomBytes} from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import {createLinks} from '../../../src/compose/links/links.ts';
import type {Claims, SignedId, TokenKeys} from '../../../src/compose/links/tokens.ts';
import {createIdSource} from '../../../src/mail/ids.ts';

const newId = createIdSource({now: () => 1_781_000_130_123, monotonic: () => 0});
const keys: TokenKeys = {current: 2, keys: {1: randomBytes(32), 2: randomBytes(32)}};
const publicUrl = 'https://mail.shop.example';
const links = createLinks({keys, publicUrl: `${publicUrl}/`, random: randomBytes});
const now = 1_781_000_130_123;
const claims: Claims = {
	workspaceId: newId('ws'),
	messageId: newId('msg'),
	topicId: newId('usg'),
	role: 'cc',
	address: 'jörg@exämple.test',
	expiresAt: 1_881_000_130_000,
};
const recipient = newId('rcp');
const address = 'Ada@Example.com';

const unsubscribeToken = (of: Claims, from = links) => from.unsubscribeUrl(of).split('token=')[1] ?? '';
const toToken = (bytes: Uint8Array) => Buffer.from([1, 2, ...bytes]).toString('base64url');
const lastSegment = (url: string | null) => url?.split('/').at(-1) ?? '';

/** All variants of the text with one character replaced by another one of the alphabet or removed. */
function* mutants(text: string, alphabet: string): Generator<string> {
	for (let index = 0; index < text.length; index++) {
		for (const character of alphabet) {
			if (character !== text[index]) {
				yield text.slice(0, index) + character + text.slice(index + 1);
			}
		}
		yield text.slice(0, index) + text.slice(index + 1);
	}
}
const base64url = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

test('an unsubscribe URL opens to its claims', t => {
	t.true(links.unsubscribeUrl(claims).startsWith(`${publicUrl}/unsubscribe?token=`));
	t.deepEqual(links.openUnsubscribe(unsubscribeToken(claims), now), {ok: true, claims, url: ''});

	const plain: Claims = {...claims, topicId: null, role: 'to', address: 'a@b.test'};
	t.deepEqual(links.openUnsubscribe(unsubscribeToken(plain), now), {ok: true, claims: plain, url: ''});
});

test('open and click tokens carry the claims, and click tokens the URL too', t => {
	t.true(links.openUrl(claims).startsWith(`${publicUrl}/t/o/`));
	t.deepEqual(links.readOpen(lastSegment(links.openUrl(claims)), now), {ok: true, claims, url: ''});

	const url = 'https://shop.example/p?q=ä&x=1#top';
	t.true(links.clickUrl(claims, url)?.startsWith(`${publicUrl}/t/c/`));
	t.deepEqual(links.readClick(lastSegment(links.clickUrl(claims, url)), now), {ok: true, claims, url});
});

for (const url of [
	'javascript:alert(1)',
	'//evil.test/',
	'/path',
	'mailto:a@b.test',
	'https://a b.test/',
	'https://x.test/\r\nSet-Cookie: a=b',
	'https://[x.test/',
	`https://x.test/${'a'.repeat(2034)}`,
	`https://x.test/${'ä'.repeat(1017)}`,
	`${publicUrl}/unsubscribe?token=AQ`,
	`${publicUrl}/unsubscribe#`,
	`${publicUrl}/unsubscribe`,
]) {
	test(`does not track ${url.slice(0, 40)}`, t => {
		t.is(links.clickUrl(claims, url), null);
	});
}

test('tracks links of the maximum length, and own URLs that are not pages for the recipient', t => {
	for (const url of [
		`https://x.test/${'a'.repeat(2033)}`,
		`https://x.test/${'ä'.repeat(1016)}`,
		`${publicUrl}/unsubscribed`,
		`${publicUrl}/`,
	]) {
		const tracked = links.clickUrl({...claims, address: `${'a'.repeat(64)}@${'b'.repeat(189)}`}, url);
		t.like(links.readClick(lastSegment(tracked), now), {ok: true, url});
	}
});

test('preserves any claims in at most 600 characters', t => {
	fc.assert(
		fc.property(
			fc.record({
				address: fc
					.string({unit: 'grapheme', minLength: 1, maxLength: 60})
					.filter(text => !text.includes('\0')),
				// Also after 2106, when the u32 of the token wraps around.
				expiresAt: fc.integer({min: 2_000_000, max: 20_000_000_000}).map(seconds => seconds * 1000),
				yearsAhead: fc.integer({min: 1, max: 10}),
				role: fc.constantFrom('to' as const, 'cc' as const),
			}),
			({yearsAhead, ...part}) => {
				const all = {...claims, ...part};
				const before = all.expiresAt - yearsAhead * 365 * 86_400_000;
				const token = unsubscribeToken(all);
				t.deepEqual(links.openUnsubscribe(token, before), {ok: true, claims: all, url: ''});
				t.like(links.openUnsubscribe(token, all.expiresAt + yearsAhead * 1000), {ok: false, fault: 'expired'});
			},
		),
	);
	const longest = {...claims, address: `${'é'.repeat(32)}@${'a'.repeat(189)}`};
	t.true(unsubscribeToken(longest).length <= 600);
});

test('a token expires at its second, and still shows its claims afterwards', t => {
	const token = unsubscribeToken(claims);
	t.true(links.openUnsubscribe(token, claims.expiresAt - 1).ok);
	t.deepEqual(links.openUnsubscribe(token, claims.expiresAt), {ok: false, fault: 'expired', claims, url: ''});
	const click = lastSegment(links.clickUrl(claims, 'https://x.test/'));
	t.like(links.readClick(click, claims.expiresAt), {fault: 'expired', url: 'https://x.test/'});
});

test('rejects every token with one character changed or missing as forged', t => {
	const token = unsubscribeToken({...claims, address: 'a@b.test'});
	for (const mutant of mutants(token, `${base64url}+/=. `)) {
		t.deepEqual(links.openUnsubscribe(mutant, now), {ok: false, fault: 'forged'}, mutant);
	}
	for (const other of [`${token}A`, `${token}=`, `${token} `, ` ${token}`, `${token}\n`, token + token]) {
		t.false(links.openUnsubscribe(other, now).ok);
	}
});

test('no other text opens', t => {
	for (const text of ['', 'constructor', '__proto__', 'AQ', 'A'.repeat(131), 'A'.repeat(100_000), '\ud800']) {
		t.deepEqual(links.openUnsubscribe(text, now), {ok: false, fault: 'forged'}, text.slice(0, 20));
	}
	fc.assert(
		fc.property(fc.oneof(fc.string(), fc.uint8Array({minLength: 31}).map(toToken)), text => {
			t.false(links.openUnsubscribe(text, now).ok);
			t.is(links.readReturnPath(text), null);
		}),
	);
});

test('a token opens only for its own purpose', t => {
	const tokens = {
		unsubscribe: unsubscribeToken(claims),
		open: lastSegment(links.openUrl(claims)),
		click: lastSegment(links.clickUrl(claims, 'https://shop.example/')),
	};
	const readers = {unsubscribe: links.openUnsubscribe, open: links.readOpen, click: links.readClick};
	for (const [made, token] of Object.entries(tokens)) {
		for (const [read, reader] of Object.entries(readers)) {
			t.is(reader(token, now).ok, made === read, `${made} read as ${read}`);
		}
	}
});

test('URLs on a link host have the scheme, port and path of the public URL', t => {
	const other = createLinks({keys, publicUrl: 'https://mail.shop.example:8443/m/', random: randomBytes});
	const pages = other.under('links.b.example');
	const base = 'https://links.b.example:8443/m';
	t.true(pages.unsubscribeUrl(claims).startsWith(`${base}/unsubscribe?token=`));
	t.true(pages.preferencesUrl(pages.unsubscribeUrl(claims)).startsWith(`${base}/preferences?token=`));
	t.true(pages.openUrl(claims).startsWith(`${base}/t/o/`));
	t.true(pages.clickUrl(claims, 'https://x.test/')?.startsWith(`${base}/t/c/`));
	t.true(other.under(null).openUrl(claims).startsWith('https://mail.shop.example:8443/m/t/o/'));
	t.true(other.openUnsubscribe(unsubscribeToken(claims, other), now).ok, 'a token works at any host');
	for (const own of [base, 'https://mail.shop.example:8443/m']) {
		t.is(pages.clickUrl(claims, `${own}/unsubscribe?token=AQ`), null, own);
		t.is(pages.clickUrl(claims, `${own}/preferences`), null, own);
	}
});

test('two tokens for the same claims differ by their nonce', t => {
	t.not(unsubscribeToken(claims), unsubscribeToken(claims));
});

const signed = {
	b: {make: () => links.returnPathLocal(recipient, address), read: links.readReturnPath},
	u: {make: () => links.unsubscribeLocal(recipient, address), read: links.readUnsubscribeLocal},
	r: {make: () => links.ref(recipient, address), read: links.readRef},
} satisfies Record<string, {make: () => string; read: (token: string) => SignedId | null}>;

for (const [letter, {make, read}] of Object.entries(signed)) {
	test(`${letter}… identifies its recipient in 45 characters, in any case`, t => {
		t.regex(make(), /^[0-9a-z]{45}$/);
		t.is(make()[0], letter);
		t.is(make(), make());
		for (const spelled of [make(), make().toUpperCase()]) {
			t.is(read(spelled)?.id, recipient);
			t.true(read(spelled)?.verify('ada@example.COM'));
			t.false(read(spelled)?.verify('bob@example.com'));
		}
	});

	test(`${letter}… does not verify with one character changed or missing`, t => {
		for (const mutant of mutants(make(), '0123456789abcdefghijklmnopqrstuvwxyz-+=\0')) {
			t.false(read(mutant)?.verify(address) ?? false, mutant);
		}
	});

	test(`${letter}… does not verify with another letter`, t => {
		for (const [other, {read: readOther}] of Object.entries(signed)) {
			if (other !== letter) {
				t.is(readOther(make()), null);
				t.false(readOther(other + make().slice(1))?.verify(address) ?? false);
			}
		}
	});
}

test('a Message-ID identifies its message', t => {
	const local = links.messageIdLocal(claims.messageId);
	t.regex(local, /^m[0-9a-z]{44}$/);
	t.is(links.readMessageIdLocal(local), claims.messageId);
	for (const mutant of mutants(local, '0123456789abcdefghijklmnopqrstuvwxyz')) {
		t.is(links.readMessageIdLocal(mutant), null);
	}
	t.is(links.readMessageIdLocal(`m${links.ref(claims.messageId, '').slice(1)}`), null);
});

test('after a key rotation, the old key reads, the new one signs and a removed one is invalid', t => {
	const before = createLinks({keys: {current: 1, keys: keys.keys}, publicUrl, random: randomBytes});
	const after = createLinks({
		keys: {current: 2, keys: {2: keys.keys[2] ?? new Uint8Array()}},
		publicUrl,
		random: randomBytes,
	});
	const old = unsubscribeToken(claims, before);
	const oldPath = before.returnPathLocal(recipient, address);
	t.true(links.openUnsubscribe(old, now).ok);
	t.true(links.readReturnPath(oldPath)?.verify(address));
	t.false(after.openUnsubscribe(old, now).ok);
	t.is(after.readReturnPath(oldPath), null);
	t.true(after.openUnsubscribe(unsubscribeToken(claims), now).ok);
});

test('authenticates the key id even if two ids share one key', t => {
	const same = randomBytes(32);
	const twice = createLinks({keys: {current: 1, keys: {1: same, 2: same}}, publicUrl, random: randomBytes});
	const bytes = Buffer.from(unsubscribeToken(claims, twice), 'base64url');
	bytes[1] = 2;
	t.false(twice.openUnsubscribe(bytes.toString('base64url'), now).ok);
});

for (const [title, bad] of Object.entries<TokenKeys>({
	'no current key': {current: 3, keys: keys.keys},
	'current is a name of Object.prototype': {current: 'constructor' as never, keys: keys.keys},
	'a short key': {current: 1, keys: {1: randomBytes(16)}},
	'an id over a byte': {current: 256, keys: {256: randomBytes(32)}},
	'an id that is not a number': {current: 1, keys: {1: randomBytes(32), ['x' as never]: randomBytes(32)}},
})) {
	test(`rejects keys: ${title}`, t => {
		t.throws(() => createLinks({keys: bad, publicUrl, random: randomBytes}));
	});
}
