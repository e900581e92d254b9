import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {loadDestinations} from '../../src/config/destinations-file.ts';
import {loadSettings} from '../../src/config/settings.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {openPolicies, Router} from '../../src/queue/router.ts';
import {findPolicy} from '../../src/resources/domains/tls-store.ts';
import type {Store} from '../../src/store/store.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {storeTest, temporaryFolder} from '../helpers/databases.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {insertWorkspace, newId} from '../helpers/messages.ts';
import {policyText, startPolicyHost} from '../helpers/policy-host.ts';
import {testVault} from '../helpers/tools.ts';
import {waitFor} from '../helpers/wait.ts';

const certificate = makeCertificate('mta-sts.example.test');

/** Routes as in the daemon, and the reported failures to fetch a policy. */
async function start(t: ExecutionContext, store: Store, env: Record<string, string> = {}) {
	const host = await startPolicyHost(t, certificate, {text: policyText('enforce', ['mx.example.test'])});
	const dns = await startFakeDns(t, {
		'example.test': {mx: [[10, 'mx.example.test']]},
		'_mta-sts.example.test': {txt: ['v=STSv1; id=1;']},
		'mta-sts.example.test': {a: [host.address]},
	});
	const caFile = join(await temporaryFolder(t), 'ca.pem');
	writeFileSync(caFile, certificate.cert);
	const loaded = loadSettings({
		env: {
			MAILCTL_DELIVERY: 'mx',
			MAILCTL_MTA_STS_PORT: String(host.port),
			MAILCTL_ALLOW_PRIVATE_MX: 'true',
			MAILCTL_CA_FILE: caFile,
			...env,
		},
		cwd: '/nonexistent',
		hostname: 'mail.shop.example',
		cpus: 1,
	});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join('\n'));
	}

	const {settings} = loaded;
	const resolver = createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock});
	const failures: string[] = [];
	const policies = openPolicies({
		settings,
		store,
		resolver,
		version: '1',
		clock: systemClock,
		observer: {
			policyFailed: ({reason}) => failures.push(reason),
			storeFailed(error) {
				throw error;
			},
		},
	});
	const routes = new Router({
		settings,
		destinations: () => loadDestinations(settings),
		store,
		vault: testVault,
		resolver,
		policies,
		clock: systemClock,
	});
	const {workspaceId} = await insertWorkspace(store, newId('ws'));
	return {
		...{host, dns, failures},
		async mtaSts(destination = 'example.test') {
			return (await routes.findRoute({destination, workspaceId})).terms.mtaSts;
		},
		policyQueries: () => dns.queries.filter(query => query.startsWith('TXT')),
	};
}

storeTest(test, 'adds the mail servers required by the domain’s policy to the route', async (t, store) => {
	const {mtaSts, host} = await start(t, store);
	t.deepEqual(await mtaSts(), {mode: 'enforce', mx: ['mx.example.test']});
	t.like(await findPolicy(store.reader, 'example.test'), {policyId: '1', mode: 'enforce'});
	t.regex(host.receiver.received[0]?.headers['user-agent'] ?? '', /^mailctl\/1$/);
	t.is(await mtaSts('other.test'), null);
});

storeTest(test, 'reports and counts a policy that cannot be fetched', async (t, store) => {
	const {mtaSts, host, failures} = await start(t, store);
	host.answer = {text: 'no policy'};
	t.is(await mtaSts(), null);
	t.is(failures.length, 1);
	const row = await waitFor('its count', () => store.reader('tls_days').first());
	t.like(row, {
		domain: 'example.test',
		policy: 'sts',
		host: 'mta-sts.example.test',
		result: 'sts-policy-invalid',
		n: 1,
	});
});

storeTest(test, 'looks up no policy when switched off, for a relay or for the simulator', async (t, store) => {
	for (const env of [
		{MAILCTL_MTA_STS: 'false'},
		{MAILCTL_DELIVERY: 'capture'},
		{MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: 'smtp://192.0.2.1'},
	]) {
		const {mtaSts, policyQueries} = await start(t, store, env);
		t.is(await mtaSts(), null);
		t.deepEqual(policyQueries(), []);
	}

	const {mtaSts, policyQueries} = await start(t, store);
	t.is(await mtaSts('simulator.test'), null);
	t.deepEqual(policyQueries(), []);
});
