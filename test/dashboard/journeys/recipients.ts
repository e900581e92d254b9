import {readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {oneClick, rawMail, unsubscribeUrl} from '../../conformance/resources.ts';
import {strangerTo, visitorOf} from '../../helpers/dashboard.ts';
import type {Workspace} from '../../helpers/service.ts';
import {journeysOf, service} from './stage.ts';

const journey = journeysOf('recipients');
const lines = 100_000;

journey(
	'a user imports a list of 100,000 addresses, finds one and removes it',
	async (t, {open, workspace, suitsAll}) => {
		const {page, go, press, attach, search} = await open(await visitorOf(service(), 'operator', workspace));
		const file = join(service().program.folder, 'list.csv');
		await writeFile(
			file,
			`recipient,reason\n${Array.from({length: lines}, (_, n) => `p${n}@dest.example,complaint\n`).join('')}`,
		);
		await page.goto('/messages');
		await go('Suppressions');
		await press('Import', 'summary');
		await attach('CSV file', file);
		await press('Import');
		await page.waitForURL(/\/suppressions\/import\//);
		await page.getByRole('progressbar').waitFor();
		await suitsAll(page);
		await page.getByText('Import finished.').waitFor();
		t.regex(await page.locator('main').innerText(), /Added\s+100,000/);

		await go('Suppressions');
		await search('P77777@dest.example');
		await press('More', 'summary');
		await press('Remove from list…', 'summary');
		await suitsAll(page);
		await press('Remove from list');
		await page.getByText('p77777@dest.example can receive messages again.').waitFor();
	},
);

journey(
	'a user creates a default topic, and unsubscribing stops only that topic',
	async (t, {open, workspace, suitsAll}) => {
		const {
			page,
			go,
			press,
			type,
			choose,
			open: openRow,
		} = await open(await visitorOf(service(), 'admin', workspace));
		await page.goto('/messages');
		await go('Topics');
		await press('New topic', 'summary');
		await type('Code', 'product');
		await type('Name', 'Product mail');
		await type('Description', 'News of your orders');
		await press('Create topic');
		await page.getByText('Created the topic product.').waitFor();
		await suitsAll(page);

		await go('Workspaces');
		await openRow(workspace);
		await choose('Default topic', 'product');
		await press('Save');
		await page.getByText('Saved.').waitFor();
		await suitsAll(page);

		const shop = service().workspaces[workspace] as Workspace;
		const {live, from, templates} = shop;
		const mail = {from, to: 'ann@dest.example', templateId: templates.plain, data: {text: 'x'}};
		const {body} = await live.post<{id: string}>('/v1/messages', mail);
		await oneClick(unsubscribeUrl(await rawMail(service(), shop, body.id)));
		const again = await live.post<{error: {code: string}}>('/v1/messages', mail);
		t.is(again.body.error.code, 'recipient_unsubscribed');
		await live.post('/v1/unsubscribe-groups', {code: 'codes', name: 'Codes'});
		t.is((await live.post('/v1/messages', {...mail, unsubscribeGroup: 'codes'})).status, 202);
		await go('Topics');
		t.regex(await page.locator('tr', {hasText: 'product'}).innerText(), /\b1\b/);
	},
);

journey(
	'a recipient chooses topics through a link, and their contact shows the choice',
	async (t, {open, workspace, suitsAll}) => {
		const {live, from, templates} = service().workspaces[workspace] as Workspace;
		await live.post('/v1/unsubscribe-groups', {code: 'offers', name: 'Offers', public: true});
		await live.post('/v1/messages', {
			from,
			to: 'bo@dest.example',
			templateId: templates.plain,
			unsubscribeGroup: 'offers',
		});
		const {page, go, press, open: openRow} = await open(await visitorOf(service(), 'operator', workspace));
		await page.goto('/messages');
		await go('Contacts');
		await openRow('bo@dest.example');
		await press('Link to their page');
		await suitsAll(page);
		const link = await page.locator('.copyable code').innerText();
		const theirs = await open(strangerTo(service().url));
		await theirs.page.goto(link);
		await theirs.page.getByLabel('Offers').focus();
		await theirs.page.keyboard.press('Space');
		await theirs.press('Save');
		await theirs.press('Pause for 30 days');
		await press('Back to the contact', 'a');
		const shown = await page.locator('main').innerText();
		t.regex(shown, /Opted out of\s+.*offers.*mail without a topic/i);
		t.regex(shown, /Paused\s+ends in (?:29|30) d/i);
		await suitsAll(page);
	},
);

journey('a user exports suppressions', async (t, {open, own, workspace}) => {
	const {page, go, press, type} = await open(await visitorOf(service(), 'operator', workspace));
	await page.goto('/messages');
	await go('Suppressions');
	await press('Add', 'summary');
	await type('Address', own('ann@dest.example'));
	await press('Add');
	await page.getByText(`${own('ann@dest.example')} is now suppressed.`).waitFor();
	await press('added manually', 'a');
	const [download] = await Promise.all([page.waitForEvent('download'), press('Export', 'a')]);
	t.is(download.suggestedFilename(), 'suppressions.csv');
	const [header = '', ...rows] = (await readFile(await download.path(), 'utf8')).trim().split(/\r?\n/);
	t.regex(header, /recipient|address/);
	t.is(rows.length, 1);
	t.true(rows[0]?.includes(own('ann@dest.example')));
});
