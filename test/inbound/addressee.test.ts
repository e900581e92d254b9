import {randomBytes} from 'node:crypto';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {createLinks} from '../../src/compose/links/links.ts';
import {judgeAddressee, OurDomains} from '../../src/inbound/addressee.ts';
import {createPastIds} from '../../src/mail/ids.ts';
import {anyChar} from '../helpers/any-char.ts';
import {newId} from '../helpers/messages.ts';

const day = 86_400_000;
const keys = {current: 1, keys: {1: randomBytes(32)}};
const links = createLinks({keys, publicUrl: '', random: randomBytes});
const [recipient, other] = [newId('rcp'), newId('rcp')];
const addresses = new Map([
	[recipient, 'Anna@example.net'],
	[other, 'bert@example.net'],
]);

function judging() {
	const options = {
		links,
		domains: new OurDomains(['bounces.test', 'mail.test'], async () => [
			'bounce.shop.test',
			'bounce.xn--bcher-kva.test',
			'in.shop.test',
		]),
		returnPathDomain: 'bounces.test',
		feedbackAddress: 'Reports@Feedback.test',
		inboxOf: async (address: string) =>
			address.endsWith('@in.shop.test') && !address.startsWith('nobody@') ? 'ws_shop' : undefined,
		addressOf: async (id: string) => addresses.get(id),
		tokenLifetimeMs: () => 90 * day,
		clock: {now: Date.now},
	};
	return (address: string) => judgeAddressee(options, address);
}

async function verdictOf(t: ExecutionContext, address: string, judge = judging()): Promise<string> {
	const judged = await judge(address);
	t.is(typeof judged.ok, 'boolean');
	return judged.ok ? judged.role : judged.text.slice(0, 5);
}

test('accepts the bounce and unsubscribe addresses at each of our domains, in any letter case', async t => {
	const [returnPath, unsubscribe] = [
		links.returnPathLocal(recipient, 'anna@example.net'),
		links.unsubscribeLocal(recipient, 'anna@example.net'),
	];
	for (const domain of ['bounces.test', 'mail.test', 'bounce.shop.test', 'Bounce.Bücher.test', 'BOUNCES.TEST']) {
		t.is(await verdictOf(t, `${returnPath}@${domain}`), 'return_path', domain);
		t.is(await verdictOf(t, `${returnPath.toUpperCase()}@${domain}`), 'return_path', domain);
		t.is(await verdictOf(t, `${unsubscribe}@${domain}`), 'unsubscribe', domain);
	}
	t.is(await verdictOf(t, `${returnPath}@other.test`), '5.7.1');
	t.deepEqual(await judging()(`${returnPath.toUpperCase()}@Bounce.Bücher.test`), {
		ok: true,
		role: 'return_path',
		address: `${returnPath}@bounce.xn--bcher-kva.test`,
		recipient,
	});
});

test('treats a quoted local part like an unquoted one', async t => {
	const reply = links.replyLocal(recipient, 'anna@example.net');
	const judge = judging();
	t.like(await judge(`"${reply}"@bounces.test`), {role: 'reply', address: `${reply}@bounces.test`, recipient});
	t.like(await judge(`"${reply.replace('+', '\\+').toUpperCase()}"@bounces.test`), {role: 'reply', recipient});
	t.is(await verdictOf(t, `"${links.returnPathLocal(recipient, 'anna@example.net')}"@bounces.test`), 'return_path');
	t.like(await judge('"Support"@in.shop.test'), {role: 'inbound', address: 'support@in.shop.test'});
	t.is(await verdictOf(t, '"nobody"@in.shop.test'), '5.1.1');
	t.is(await verdictOf(t, '"postmaster"@bounces.test'), 'operator');
	// A local part that needs its quotes keeps them.
	t.like(await judge('"ann.@x"@in.shop.test'), {role: 'inbound', address: '"ann.@x"@in.shop.test'});
});

test('accepts a token only for its own recipient and purpose', async t => {
	const token = links.returnPathLocal(recipient, 'anna@example.net');
	const others = links.returnPathLocal(other, 'bert@example.net');
	const foreign = createLinks({keys: {current: 1, keys: {1: randomBytes(32)}}, publicUrl: '', random: randomBytes});
	for (const local of [
		// The id of one recipient with the MAC of another.
		token.slice(0, 29) + others.slice(29),
		links.returnPathLocal(recipient, 'someone@else.test'),
		foreign.returnPathLocal(recipient, 'anna@example.net'),
		`u${token.slice(1)}`,
		`b${links.unsubscribeLocal(recipient, 'anna@example.net').slice(1)}`,
		links.ref(recipient, 'anna@example.net'),
		token.slice(0, -1),
		`${token}0`,
		// A recipient that does not exist, though its message would still be stored.
		links.returnPathLocal(newId('rcp'), 'anna@example.net'),
		'b',
		'nobody',
		'',
	]) {
		t.is(await verdictOf(t, `${local}@bounces.test`), '5.1.1', local);
	}
});

test('accepts a token older than the retention of messages as late, without proof', async t => {
	const id = createPastIds()('rcp', Date.now() - 91 * day);
	const address = `${links.returnPathLocal(id, 'gone@example.net')}@bounces.test`;
	t.like(await judging()(address), {role: 'late', recipient: null});
	const young = createPastIds()('rcp', Date.now() - 89 * day);
	t.is(await verdictOf(t, `${links.returnPathLocal(young, 'gone@example.net')}@bounces.test`), '5.1.1');
	const future = createPastIds()('rcp', Date.now() + day);
	t.is(await verdictOf(t, `${links.returnPathLocal(future, 'gone@example.net')}@bounces.test`), '5.1.1');
});

test('accepts the test bounce that doctor sends', async t => {
	t.is(
		await verdictOf(t, `${links.returnPathLocal(newId('rcp'), 'postmaster@bounces.test')}@bounces.test`),
		'return_path',
	);
});

test('accepts mail to the feedback, report and operator addresses', async t => {
	for (const [address, role] of Object.entries({
		'reports@feedback.test': 'feedback',
		'REPORTS@Feedback.TEST': 'feedback',
		'fbl@bounces.test': 'feedback',
		'Fbl@bounce.shop.test': 'feedback',
		'dmarc@bounce.shop.test': 'dmarc',
		'TLSRPT@bounces.test': 'tlsrpt',
		'postmaster@feedback.test': '5.7.1',
		'fbl@feedback.test': '5.7.1',
		postmaster: 'operator',
		'PostMaster@mail.test': 'operator',
		'abuse@bounce.shop.test': 'operator',
		'abuse@other.test': '5.7.1',
		'root@mail.test': '5.1.1',
		'a%other.test@bounces.test': '5.1.1',
		'other.test!a@bounces.test': '5.1.1',
		'postmaster@[127.0.0.1]': '5.7.1',
		'x@localhost': '5.7.1',
	})) {
		t.is(await verdictOf(t, address), role, address);
	}
});

test('recognizes an added domain once its cached list is discarded', async t => {
	const known = ['bounce.one.test'];
	let asked = 0;
	const domains = new OurDomains([], async () => {
		asked++;
		return [...known];
	});
	t.deepEqual([await domains.has('bounce.one.test'), await domains.has('bounce.two.test')], [true, false]);
	known.push('bounce.two.test');
	t.false(await domains.has('bounce.two.test'));
	domains.forget();
	t.true(await domains.has('bounce.two.test'));
	t.is(asked, 2);
});

test('does not cache a failed lookup of the domains', async t => {
	let failing = true;
	const domains = new OurDomains([], () =>
		failing ? Promise.reject(new Error('locked')) : Promise.resolve(['a.test']),
	);
	await t.throwsAsync(domains.has('a.test'), {message: 'locked'});
	failing = false;
	t.true(await domains.has('a.test'));
});

test('accepts only our own addresses and never throws, whatever the address', async t => {
	const judge = judging();
	const local = fc.oneof(
		fc.string({unit: anyChar}),
		fc.constantFrom('postmaster', 'fbl', 'b', 'u'),
		fc.stringMatching(/^[bu][0-9a-z]{44}$/),
	);
	const domain = fc.oneof(fc.string({unit: anyChar}), fc.constantFrom('bounces.test', 'other.test', '[127.0.0.1]'));
	await fc.assert(
		fc.asyncProperty(local, domain, async (name, host) => {
			const judged = await judge(`${name}@${host}`);
			// The chance that a made-up token is valid is 2^-80.
			return !judged.ok || ['operator', 'feedback', 'late'].includes(judged.role);
		}),
	);
	t.pass();
});
