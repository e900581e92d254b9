import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {openBrowser} from '../helpers/browser.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {faultsOf, openWindow, tabTo} from '../helpers/dashboard-browser.ts';
import {serviceOf} from '../helpers/service.ts';

const service = serviceOf(test, {workspaces: {shop: []}});
const lines = 100_000;

test('a list of 100,000 addresses is imported, one of them found and let go, without a mouse', async t => {
	const browser = await openBrowser(t);
	if (browser === null) {
		return;
	}
	const {url, program} = service();
	const visitor = await visitorOf(service(), 'operator', 'shop');
	const {page, complaints} = await openWindow(browser, {url, visitor});
	const file = join(program.folder, 'list.csv');
	await writeFile(
		file,
		`recipient,reason\n${Array.from({length: lines}, (_, n) => `p${n}@dest.example,complaint\n`).join('')}`,
	);

	await page.goto('/suppressions');
	t.deepEqual(await faultsOf(page), []);
	await tabTo(page, 'summary', 'Import');
	await page.keyboard.press('Enter');
	// The system's own window for files is no part of the page.
	await page.getByLabel('CSV file').setInputFiles(file);
	await page.getByLabel('CSV file').focus();
	await tabTo(page, 'button', 'Import');
	await page.keyboard.press('Enter');
	await page.waitForURL(/\/suppressions\/import\//);
	await page.getByRole('progressbar').waitFor();
	t.deepEqual(await faultsOf(page), []);
	await page.getByText('The file is read.').waitFor({timeout: 120_000});
	t.regex(await page.locator('main').innerText(), /Added\s+100,000/);
	t.deepEqual(await faultsOf(page), []);

	await page.keyboard.press('g');
	await page.keyboard.press('s');
	await page.waitForURL(/\/suppressions$/);
	await page.keyboard.press('/');
	await page.keyboard.type('P77777@dest.example');
	await page.keyboard.press('Enter');
	await page.waitForURL(/q=/);
	await tabTo(page, 'button', 'Remove');
	await page.keyboard.press('Enter');
	await page.getByText('p77777@dest.example gets mail again.').waitFor();
	t.deepEqual(complaints, []);
});

test('each page of recipients is there for everybody, empty and full', async t => {
	const browser = await openBrowser(t);
	if (browser === null) {
		return;
	}
	const {url, workspaces} = service();
	const shop = workspaces.shop as NonNullable<(typeof workspaces)[string]>;
	const visitor = await visitorOf(service(), 'operator', 'shop');
	const {page, complaints} = await openWindow(browser, {url, visitor});
	for (const path of ['/topics', '/contacts']) {
		await page.goto(path);
		t.deepEqual(await faultsOf(page), []);
	}
	await visitor.submit('/topics', {code: 'news', name: 'Monthly news'});
	const send = {from: shop.from, to: 'ann@dest.example', templateId: shop.templates.plain, data: {}};
	await shop.live.post('/v1/messages', send);
	for (const path of ['/topics', '/contacts']) {
		await page.goto(path);
		t.deepEqual(await faultsOf(page), []);
	}
	await page.keyboard.press('j');
	await page.keyboard.press('Enter');
	await page.waitForURL(/\/contacts\/con_/);
	t.deepEqual(await faultsOf(page), []);
	t.deepEqual(complaints, []);
});
