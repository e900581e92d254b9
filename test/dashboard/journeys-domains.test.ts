import {mkdtemp} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import type {Browser} from 'playwright-core';
import {openBrowser} from '../helpers/browser.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {faultsOf, openWindow, tabTo} from '../helpers/dashboard-browser.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {serviceOf} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {type Receiver, startReceiver} from '../helpers/webhook-receiver.ts';

let receiver: Receiver;
const service = serviceOf(test, {
	workspaces: {shop: []},
	async settings(scope) {
		receiver = await startReceiver(scope, await mkdtemp(join(tmpdir(), 'mailctl-hooks-')), ['hooks.shop.example']);
		receiver.zone['out.mail.example'] = {a: ['192.0.2.1']};
		return {...receiver.settings, MAILCTL_WEBHOOK_BACKOFF: '1ms', MAILCTL_HOSTNAME: 'out.mail.example'};
	},
});

async function recordsOf(name: string): Promise<readonly ToPublish[]> {
	const shown = service().program.cli<{records: ToPublish[]}>('domain', 'show', name, '--workspace', 'shop');
	return (await shown).records;
}

const windowOf = async (browser: Browser, role: 'admin' | 'operator') =>
	await openWindow(browser, {url: service().url, visitor: await visitorOf(service(), role, 'shop')});

/** Mail whose events the receiver refuses until they are given up. */
async function sendInOutage(addresses: readonly string[], endpoint: string): Promise<void> {
	const {live, from, templates} = service().workspaces.shop as NonNullable<
		ReturnType<typeof service>['workspaces'][string]
	>;
	receiver.behave('/hooks', (_, response) => response.writeHead(503).end());
	for (const to of addresses) {
		await live.post('/v1/messages', {from, to, templateId: templates.plain});
	}
	await waitFor('its deliveries are exhausted', async () => {
		const command = ['webhook', 'deliveries', endpoint, '--status', 'exhausted', '--workspace', 'shop'];
		return (await service().program.cli<unknown[]>(...command)).length === addresses.length;
	});
	receiver.behave('/hooks', (_, response) => response.end());
}

test.serial('a domain is added, its records copied, and DNS turns green while one looks', async t => {
	const browser = await openBrowser(t);
	if (browser === null) {
		return;
	}
	const {page, context, complaints} = await windowOf(browser, 'admin');
	await context.grantPermissions(['clipboard-read', 'clipboard-write']);
	await page.goto('/domains');
	await page.getByText('Add a domain').click();
	t.deepEqual(await faultsOf(page), []);
	await page.locator('input[name=name]').fill('mouse.example');
	await page.getByRole('button', {name: 'Add the domain'}).click();
	await page.getByText('publish either of these').waitFor();
	t.deepEqual(await faultsOf(page), []);

	const records = await recordsOf('mouse.example');
	const [{name, value} = {name: '', value: ''}] = records;
	await page.getByRole('button', {name: `Copy the value of ${name}`}).click();
	await page.getByText('Copied', {exact: true}).waitFor();
	t.is(await page.evaluate('navigator.clipboard.readText()'), value);
	publish(receiver.zone, records);
	await page
		.locator('.records .badge.good')
		.nth(records.length - 1)
		.waitFor();
	await page.getByRole('button', {name: 'Verify now'}).click();
	await page.getByText('mouse.example is verified.').waitFor();
	t.deepEqual(await faultsOf(page), []);

	await page.getByText('Add a sender').click();
	await page.getByLabel('Address').fill('orders@mouse.example');
	await page.getByRole('button', {name: 'Add the sender'}).click();
	await page.getByRole('link', {name: 'orders@mouse.example'}).click();
	await page.getByText('Remove', {exact: true}).click();
	t.deepEqual(await faultsOf(page), []);
	t.deepEqual(complaints, []);
});

test.serial('a domain is added and verified by the keyboard alone', async t => {
	const browser = await openBrowser(t);
	if (browser === null) {
		return;
	}
	const {page, complaints} = await windowOf(browser, 'admin');
	await page.goto('/messages');
	await page.keyboard.press('g');
	await page.keyboard.press('d');
	await page.waitForURL(/\/domains$/);
	await tabTo(page, 'summary', 'Add a domain');
	await page.keyboard.press('Enter');
	await page.keyboard.press('Tab');
	await page.keyboard.type('keys.example');
	await page.keyboard.press('Enter');
	await page.waitForURL(/\/domains\/dom_/);
	publish(receiver.zone, await recordsOf('keys.example'));
	await tabTo(page, 'button', 'Verify now');
	await page.keyboard.press('Enter');
	await page.getByText('keys.example is verified.').waitFor();
	t.deepEqual(complaints, []);
});

test.serial('webhooks are replayed after an outage, by mouse and by the keyboard alone', async t => {
	const browser = await openBrowser(t);
	if (browser === null) {
		return;
	}
	const {page, complaints} = await windowOf(browser, 'operator');
	await page.goto('/webhooks');
	t.deepEqual(await faultsOf(page), []);
	const command = ['webhook', 'add', receiver.url('/hooks'), '--event', 'delivered', '--workspace', 'shop'];
	const {id} = await service().program.cli<{id: string}>(...command);
	await sendInOutage(['ann@dest.example', 'bob@dest.example'], id);
	await page.goto('/webhooks');
	await page.getByText('failing', {exact: true}).waitFor();
	t.deepEqual(await faultsOf(page), []);
	await page.getByRole('link', {name: receiver.url('/hooks')}).click();
	await page.getByText('Replay many').click();
	t.deepEqual(await faultsOf(page), []);
	await page.getByRole('button', {name: 'Replay'}).click();
	await page.getByText('posted again now: 2.').waitFor();
	await page.locator('#deliveries .badge.good').nth(1).waitFor();
	await page.locator('#state').getByText('active').waitFor();

	await sendInOutage(['cy@dest.example'], id);
	await page.keyboard.press('g');
	await page.keyboard.press('w');
	await page.waitForURL(/\/webhooks$/);
	await page.keyboard.press('j');
	await page.keyboard.press('Enter');
	await page.waitForURL(/\/webhooks\/whe_\w+$/);
	await page.keyboard.press('j');
	await page.keyboard.press('Enter');
	await page.waitForURL(/\/deliveries\/whd_/);
	await page.getByRole('heading', {name: 'delivered: cy@dest.example'}).waitFor();
	t.deepEqual(await faultsOf(page), []);
	await tabTo(page, 'button', 'Replay');
	await page.keyboard.press('Enter');
	await page.getByText('It is posted again now.').waitFor();
	await page.locator('#delivery .badge.good').waitFor();
	t.deepEqual(complaints, []);
});

test.serial('what an admin does with an endpoint is there for everybody', async t => {
	const browser = await openBrowser(t);
	if (browser === null) {
		return;
	}
	const {page, complaints} = await windowOf(browser, 'admin');
	await page.goto('/webhooks');
	await page.getByText('Add an endpoint').click();
	t.deepEqual(await faultsOf(page), []);
	await page.getByLabel('URL').fill(receiver.url('/more'));
	await page.locator('input[value=bounced]').check();
	await page.getByRole('button', {name: 'Add the endpoint'}).click();
	await page.getByRole('button', {name: 'Send a test'}).click();
	await page.getByText('The test event was acknowledged').waitFor();
	for (const form of ['Change', 'Remove', 'Rotate']) {
		await page.locator('summary', {hasText: form}).click();
		t.deepEqual(await faultsOf(page), [], form);
		await page.locator('summary', {hasText: form}).click();
	}
	await page.getByRole('link', {name: 'Show', exact: true}).click();
	await page.getByText(/^whsec_/).waitFor();
	t.deepEqual(await faultsOf(page), []);
	t.deepEqual(complaints, []);
});
