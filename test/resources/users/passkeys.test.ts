import test from 'ava';
import fc from 'fast-check';
import {FailedLogIns} from '../../../src/resources/users/failed-log-ins.ts';
import {Passkeys, removePasskey} from '../../../src/resources/users/passkeys.ts';
import {listPasskeys, type User} from '../../../src/resources/users/store.ts';
import type {Store} from '../../../src/store/store.ts';
import {createAuthenticator} from '../../helpers/authenticator.ts';
import {sqliteTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';
import {newUser} from '../../helpers/users.ts';

const site = {origin: 'https://mail.example.com', host: 'mail.example.com'};
const address = '192.0.2.1';
const wrong = {ok: false, reason: 'wrong'} as const;

async function labOf(store: Store) {
	const tools = testTools();
	const {clock, newId} = tools;
	const passkeys = new Passkeys({store, vault: testVault, clock, newId, attempts: new FailedLogIns(clock)});
	const add = async (email: string): Promise<User> => (await newUser(store, tools, {email})).user;
	const ann = await add('ann@x.example');
	const authenticator = createAuthenticator(site);
	const register = async (user = ann, flags = {}) => {
		const {options, pending} = await passkeys.createRegistrationRequest(user, site);
		const answer = authenticator.register(options, flags);
		return await passkeys.register(tools.operator, user, {pending, answer, site, name: ' Phone '});
	};
	const logIn = async (flags = {}, userId: string | null = null) => {
		const {options, pending} = await passkeys.createLoginRequest(site, userId);
		return await passkeys.logIn({pending, answer: authenticator.logIn(options, flags), site, address});
	};
	return {tools, passkeys, add, ann, authenticator, register, logIn};
}

sqliteTest(test, 'registers a passkey once and signs its user in', async (t, store) => {
	const {tools, passkeys, add, ann, authenticator, register, logIn} = await labOf(store);
	t.deepEqual(await logIn(), wrong, 'nobody knows it');
	const made = await register();
	t.like(made, {user_id: ann.id, credential_id: authenticator.id, name: 'Phone', used_at: null});
	t.is(await register(), undefined, 'it is there already');
	const {options} = await passkeys.createRegistrationRequest(ann, site);
	t.deepEqual(
		options.excludeCredentials?.map(({id}) => id),
		[authenticator.id],
	);

	t.like(await logIn(), {ok: true, user: {id: ann.id}});
	t.like(await logIn({}, ann.id), {ok: true});
	t.deepEqual(await logIn({}, (await add('bob@x.example')).id), wrong, 'it is not his');
	t.is((await listPasskeys(store.reader, ann.id))[0]?.used_at, '2026-06-09T10:00:00.000Z');

	t.truthy(await store.writer.transaction(trx => removePasskey(trx, tools, ann, made?.id ?? '')));
	t.is(await store.writer.transaction(trx => removePasskey(trx, tools, ann, made?.id ?? '')), undefined);
	t.deepEqual(await logIn(), wrong);
	const actions: string[] = await store.reader('audit').orderBy('id').pluck('action');
	t.deepEqual(
		actions.filter(action => action.includes('passkey')),
		['user.passkey_added', 'user.passkey_removed'],
	);
});

sqliteTest(test, 'rejects a response for another site, without the user, repeated or too late', async (t, store) => {
	const {tools, passkeys, ann, authenticator, register, logIn} = await labOf(store);
	t.is(await register(ann, {origin: 'https://mail.example.com.evil.test'}), undefined);
	t.is(await register(ann, {verified: false}), undefined);
	t.truthy(await register());
	t.deepEqual(await logIn({origin: 'https://evil.test'}), wrong);
	t.deepEqual(await logIn({verified: false}), wrong, 'nobody gave a PIN or a finger');

	const {options, pending} = await passkeys.createLoginRequest(site, null);
	const answer = authenticator.logIn(options);
	t.like(await passkeys.logIn({pending, answer, site, address}), {ok: true});
	t.deepEqual(await passkeys.logIn({pending, answer, site, address}), wrong, 'it was used');

	const late = await passkeys.createLoginRequest(site, null);
	tools.advance(5 * 60_000);
	const lateAnswer = authenticator.logIn(late.options);
	t.deepEqual(await passkeys.logIn({pending: late.pending, answer: lateAnswer, site, address}), wrong);

	const other = createAuthenticator(site);
	const asked = await passkeys.createLoginRequest(site, null);
	const forged = {...other.logIn(asked.options), id: authenticator.id, rawId: authenticator.id};
	t.deepEqual(await passkeys.logIn({pending: asked.pending, answer: forged, site, address}), wrong);
});

sqliteTest(test, 'rejects a passkey whose counter goes back, as cloned', async (t, store) => {
	const {ann, register, logIn} = await labOf(store);
	await register(ann, {counter: 4_294_967_000});
	t.like(await logIn({counter: 4_294_967_001}), {ok: true});
	t.deepEqual(await logIn({counter: 4_294_967_001}), wrong);
	t.like(await logIn({counter: 4_294_967_002}), {ok: true});
});

sqliteTest(test, 'locks an address after thirty wrong responses', async (t, store) => {
	const {register, logIn} = await labOf(store);
	await register();
	for (let n = 0; n < 30; n++) {
		t.deepEqual(await logIn({verified: false}), wrong);
	}
	t.deepEqual(await logIn(), {ok: false, reason: 'limited', seconds: 900});
});

sqliteTest(test, 'rejects any invalid response of a browser', async (t, store) => {
	const {passkeys, ann, authenticator, register} = await labOf(store);
	await register();
	let n = 0;
	const json = fc.jsonValue();
	await fc.assert(
		fc.asyncProperty(json, json, fc.boolean(), async (value, part, isKnown) => {
			const {pending} = await passkeys.createLoginRequest(site, null);
			const answer = isKnown ? {...authenticator.logIn({challenge: 'x'}), response: part} : value;
			const from = `2001:db8:0:${(n++).toString(16)}::1`;
			t.deepEqual(await passkeys.logIn({pending, answer, site, address: from}), wrong);
			const asked = await passkeys.createRegistrationRequest(ann, site);
			const operator = {actor: 'user:ann', from};
			const given = {pending: asked.pending, answer: value, site, name: 'x'};
			t.is(await passkeys.register(operator, ann, given), undefined);
		}),
		{numRuns: 50},
	);
});
