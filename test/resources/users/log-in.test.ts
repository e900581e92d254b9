import {randomBytes, scryptSync} from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import type {ActTools} from '../../../src/mail/operator.ts';
import {FailedLogIns} from '../../../src/resources/users/failed-log-ins.ts';
import {createLogIn, removeTotp, setPassword, setTotp} from '../../../src/resources/users/log-in.ts';
import {findUser, type User, updateUser} from '../../../src/resources/users/store.ts';
import {createTotpSecret, totpCode, totpStep} from '../../../src/resources/users/totp.ts';
import type {Store} from '../../../src/store/store.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';
import {newUser} from '../../helpers/users.ts';

const password = 'correct horse battery';
const address = '192.0.2.1';
const minute = 60_000;

async function addAnn(store: Store, tools: ActTools): Promise<User> {
	return (await newUser(store, tools, {email: 'ann@x.example'})).user;
}

/** Like `setPassword`, with a hash that is fast to compute and compare, since it names its own cost. */
async function givePassword(store: Store, user: User): Promise<void> {
	const salt = randomBytes(16);
	const made = scryptSync(password, salt, 32, {N: 1024, r: 8, p: 1});
	const password_hash = `scrypt:1024:8:1:${salt.toString('base64url')}:${made.toString('base64url')}`;
	await store.writer.transaction(trx => updateUser(trx, user.id, {password_hash}));
}

function labOf(store: Store) {
	const tools = testTools();
	const log = createLogIn({store, vault: testVault, clock: tools.clock, attempts: new FailedLogIns(tools.clock)});
	return {tools, ...log};
}

sqliteTest(test.serial, 'signs in with the password only, however the address is spelled', async (t, store) => {
	const {tools, logIn} = labOf(store);
	const user = await addAnn(store, tools);
	const wrong = {ok: false, reason: 'wrong'} as const;
	t.deepEqual(await logIn({email: user.email, password, address}), wrong, 'she has none');
	t.deepEqual(await setPassword(store, tools, {user, password: 'short', sessionId: null}), {
		...{ok: false, reason: 'fault'},
		problem: 'must have at least 12 characters, such as three or four words',
	});
	t.deepEqual(await setPassword(store, tools, {user, password, sessionId: null}), {ok: true});
	t.like(await logIn({email: ' Ann@X.example', password, address}), {ok: true, user: {id: user.id}});
	t.deepEqual(await logIn({email: user.email, password: `${password}!`, address}), wrong);
	t.deepEqual(await logIn({email: 'bob@x.example', password, address}), wrong);
	t.deepEqual(await logIn({email: '', password: '', address}), wrong);
	const actions = await store.reader('audit').orderBy('id').pluck('action');
	t.deepEqual(actions, ['user.added', 'user.password_set']);
	t.notRegex(JSON.stringify(await store.reader('users')), /correct/);
});

storeTest(test.serial, 'after ten failures rejects even the right password for a while', async (t, store) => {
	const {tools, logIn} = labOf(store);
	const user = await addAnn(store, tools);
	await givePassword(store, user);
	const tried = await Promise.all(
		Array.from({length: 12}, () => logIn({email: user.email, password: 'not her password', address})),
	);
	t.is(tried.filter(each => !each.ok && each.reason === 'limited').length, 2, 'also those that are tried at once');
	t.deepEqual(await logIn({email: user.email, password, address}), {ok: false, reason: 'limited', seconds: 900});
	const fromHome = {email: user.email, password, address: '203.0.113.1'};
	t.like(await logIn(fromHome), {ok: true}, 'from another network it passes');
	tools.advance(15 * minute);
	t.like(await logIn({email: user.email, password, address}), {ok: true});
});

sqliteTest(test.serial, 'counts a guessed link as a wrong password of its network', async (t, store) => {
	const {tools, openLink, logIn} = labOf(store);
	const {user, token} = await newUser(store, tools, {email: 'ann@x.example'});
	for (let n = 0; n < 30; n++) {
		t.deepEqual(await openLink({token: `guess${n}`, address}), {ok: false, reason: 'wrong'});
	}
	const limited = {ok: false, reason: 'limited', seconds: 900} as const;
	t.deepEqual(await openLink({token, address}), limited);
	t.deepEqual(await logIn({email: 'ann@x.example', password, address}), limited);
	t.like(await openLink({token, address: '203.0.113.1'}), {ok: true, user: {id: user.id}}, 'it was not used up');
	t.deepEqual(await openLink({token, address: '203.0.113.1'}), {ok: false, reason: 'wrong'});
});

storeTest(test.serial, 'rejects too many concurrent logins without counting them as failures', async (t, store) => {
	const {tools, logIn} = labOf(store);
	const user = await addAnn(store, tools);
	await setPassword(store, tools, {user, password, sessionId: null});
	const tried = await Promise.all(
		Array.from({length: 90}, (_, n) => logIn({email: user.email, password, address: `192.0.2.${n}`})),
	);
	// A log-in whose user is found late may begin after the first checks have ended. test/resources/users/password.test.ts counts
	// exactly.
	const passed = tried.filter(({ok}) => ok).length;
	t.true(passed >= 10 && passed < 60, String(passed));
	t.is(tried.filter(each => !each.ok && each.reason === 'busy').length, 90 - passed);
	t.like(await logIn({email: user.email, password, address}), {ok: true});
});

storeTest(test.serial, 'requires a one-time code after the password and accepts none twice', async (t, store) => {
	const {tools, logIn, enterCode} = labOf(store);
	const user = await addAnn(store, tools);
	await givePassword(store, user);
	const secret = createTotpSecret(tools.random);
	const codeNow = () => totpCode(secret, totpStep(tools.clock.now()));
	t.false(await setTotp(store, tools, testVault, {user, secret, code: '000000'}));
	t.false(await setTotp(store, tools, testVault, {user, secret: 'no secret', code: codeNow()}));
	t.true(await setTotp(store, tools, testVault, {user, secret, code: codeNow()}));
	t.notRegex(JSON.stringify(await store.reader('users')), new RegExp(secret));

	const asked = await logIn({email: user.email, password, address});
	if (asked.ok || asked.reason !== 'code_needed') {
		t.fail();
		return;
	}
	const {pending} = asked;
	t.like(await enterCode({pending, code: codeNow(), address}), {reason: 'code_wrong'}, 'it set the secret');
	tools.advance(minute);
	const code = codeNow();
	t.like(await enterCode({pending, code, address}), {ok: true, user: {id: user.id}});
	t.like(await enterCode({pending, code, address}), {reason: 'code_wrong'});
	tools.advance(minute);
	t.like(await enterCode({pending, code: codeNow(), address}), {ok: true});
	tools.advance(5 * minute);
	t.deepEqual(await enterCode({pending, code: codeNow(), address}), {ok: false, reason: 'wrong'}, 'it has ended');

	await removeTotp(store, tools, user);
	t.like(await logIn({email: user.email, password, address}), {ok: true});
	t.like(await findUser(store.reader, user.id), {totp: null, totp_step: null});
});

sqliteTest(test.serial, 'limits attempts at codes like those at passwords', async (t, store) => {
	const {tools, logIn, enterCode} = labOf(store);
	const user = await addAnn(store, tools);
	await givePassword(store, user);
	const secret = createTotpSecret(tools.random);
	await setTotp(store, tools, testVault, {user, secret, code: totpCode(secret, totpStep(tools.clock.now()))});
	const asked = await logIn({email: user.email, password, address});
	const pending = asked.ok || !('pending' in asked) ? '' : asked.pending;
	for (let n = 0; n < 10; n++) {
		t.like(await enterCode({pending, code: '000000', address: `192.0.2.${n}`}), {reason: 'code_wrong'});
	}
	t.like(await enterCode({pending, code: '000000', address: '198.51.100.1'}), {reason: 'limited'});
});

sqliteTest(test.serial, 'never accepts arbitrary text as a pending login', async (t, store) => {
	const {enterCode} = labOf(store);
	let n = 0;
	await fc.assert(
		fc.asyncProperty(fc.string(), async pending => {
			const result = await enterCode({pending, code: '000000', address: `2001:db8:0:${(n++).toString(16)}::1`});
			t.false(result.ok);
		}),
	);
});
