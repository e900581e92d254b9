import {mkdtemp} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {journeysOf} from '../helpers/journeys.ts';
import {serviceOf} from '../helpers/service.ts';
import {type Receiver, startReceiver} from '../helpers/webhook-receiver.ts';

let receiver: Receiver;
const service = serviceOf(test, {
	workspaces: {shop: []},
	async settings(scope) {
		receiver = await startReceiver(scope, await mkdtemp(join(tmpdir(), 'mailctl-hooks-')), ['hooks.shop.example']);
		receiver.zone['out.mail.example'] = {a: ['192.0.2.1']};
		return {...receiver.settings, MAILCTL_HOSTNAME: 'out.mail.example'};
	},
});
const journey = journeysOf(test, 'journeys-domains', service);

journey('a domain is added, and DNS turns green while one looks', async (t, {open, own, suitsAll}) => {
	const {program} = service();
	await program.cli('domain', 'add', own('first.example'), '--workspace', 'shop');
	const {page, go, press, type, copy} = await open(await visitorOf(service(), 'admin', 'shop'));
	await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
	await page.clock.install();
	await page.goto('/messages');
	await go('Domains');
	await press('Add a domain', 'summary');
	const name = own('new.example');
	await type('Domain', name);
	await press('Add the domain');
	await page.getByText('publish either of these').waitFor();
	await suitsAll(page);

	const {records} = await program.cli<{records: ToPublish[]}>('domain', 'show', name, '--workspace', 'shop');
	const [record = {name: '', value: ''}] = records;
	await copy(`the value of ${record.name}`);
	await page.getByText('Copied', {exact: true}).waitFor();
	t.is(await page.evaluate('navigator.clipboard.readText()'), record.value);
	publish(receiver.zone, records);
	// The page asks DNS again by itself.
	await page.clock.fastForward(16_000);
	await page
		.locator('.records .badge.good')
		.nth(records.length - 1)
		.waitFor();
	await press('Verify now');
	await page.getByText(`${name} is verified.`).waitFor();
	await suitsAll(page);

	await press('Add a sender', 'summary');
	await type('Address', `orders@${name}`);
	await press('Add the sender');
	await press(`orders@${name}`, 'a');
	await page.getByRole('heading', {name: `orders@${name}`}).waitFor();
});
