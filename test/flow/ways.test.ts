import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {logged} from '../helpers/daemon.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

test('the destinations file routes a domain through a relay; SIGHUP reloads it unless it is invalid', async t => {
	const smarthost = await startFakeMx(t, {host: loopbackAddress()});
	const source = loopbackAddress();
	const started = await startMailHosts(
		t,
		{'mx.a.example': {}, 'mx.b.example': {}},
		{},
		{
			MAILCTL_DESTINATIONS_FILE: 'destinations.json',
			MAILCTL_SOURCE_ADDRESSES: `${source}=otp.shop.example`,
			MAILCTL_SOURCE_POOLS: `otp=${source}`,
		},
	);
	const {program} = started;
	const writeDestinations = (text: string) => writeFileSync(join(program.folder, 'destinations.json'), text);
	const route = `smtp://${smarthost.host}:${smarthost.port}?tls=none`;
	const arrived = (name: 'a' | 'b' | 'smarthost', to: string) =>
		waitFor(`mail to ${to}`, () => {
			const {received} = name === 'smarthost' ? smarthost : started.host(`mx.${name}.example`);
			return received.some(mail => mail.to.includes(to));
		});
	writeDestinations(JSON.stringify({partner: {domains: ['a.example'], route}}));
	await program.cliBytes('init');
	await program.cli('workspace', 'update', 'default', '--pool', 'otp');
	const daemon = await program.serve({MAILCTL_SOURCE_POOLS: ''});
	const {send} = await clientOf(program, daemon);
	const [warning] = await logged(program, 'workspace_setting_unknown');
	t.regex(JSON.stringify(warning), /default: its source pool otp is not in MAILCTL_SOURCE_POOLS/);
	await send('one@a.example');
	await send('one@b.example');
	await arrived('smarthost', 'one@a.example');
	await arrived('b', 'one@b.example');

	writeDestinations('{"partner": {"domains": ["b.example"], "conections": 3, "route": "nowhere"}');
	daemon.signal('SIGHUP');
	const [refusal] = await logged(program, 'reload_refused');
	t.regex(JSON.stringify(refusal), /MAILCTL_DESTINATIONS_FILE=.*is not JSON: see line 1/);
	await send('two@a.example');
	await arrived('smarthost', 'two@a.example');

	writeDestinations(JSON.stringify({partner: {domains: ['b.example'], route}}));
	daemon.signal('SIGHUP');
	await logged(program, 'reloaded');
	await send('three@a.example');
	await send('three@b.example');
	await arrived('a', 'three@a.example');
	await arrived('smarthost', 'three@b.example');
	t.is(await daemon.stop(), 0);
});

test('an invalid destinations file makes serve and config check exit with 78 and report every problem', async t => {
	const {program} = await startMailHosts(t, {}, {}, {MAILCTL_DESTINATIONS_FILE: 'destinations.json'});
	const own = {domains: ['own.example'], retry: 'often', lifetime: 5};
	writeFileSync(join(program.folder, 'destinations.json'), JSON.stringify({google: {connections: 0}, x: {}, own}));
	for (const command of [['config', 'check'], ['serve']]) {
		const {code, stderr} = await program.run(...command);
		t.is(code, 78);
		t.regex(stderr, /destinations\.json" google\.connections: use a whole number, 1 to 1000\n/);
		t.regex(stderr, /destinations\.json" x: matches nothing/);
		t.regex(stderr, /destinations\.json" own\.retry: use durations separated by commas such as "1m,5m,4h\*"/);
		t.regex(stderr, /destinations\.json" own\.lifetime: use a time such as/);
	}
});
