import type {Page} from 'playwright-core';
import {visitorOf} from '../../helpers/dashboard.ts';
import type {Workspace} from '../../helpers/service.ts';
import {waitFor} from '../../helpers/wait.ts';
import {journeysOf, service} from './stage.ts';

const journey = journeysOf('workspaces');

async function send(workspace: string, to: string) {
	const {live, from, templates} = service().workspaces[workspace] as Workspace;
	return await live.post<{id: string}>('/v1/messages', {from, to, templateId: templates.plain, data: {name: 'Ann'}});
}

/** The status of a request for messages with a key. */
const answerTo = async (key: string) => (await service().api(key).get('/v1/messages')).status;

journey('a user of one workspace sees nothing of another', async (t, {open, own}) => {
	const to = own('secret@dest.example');
	const {body} = await send('shop', to);
	const {page, press, search, go} = await open(await visitorOf(service(), 'admin', 'other'));
	await page.goto(`/messages/${body.id}`);
	await page.getByRole('heading', {name: 'Not found'}).waitFor();
	await press('Go to the dashboard', 'a');
	await page.waitForURL(/\/messages$/);
	t.is(await page.getByText(to).count(), 0);
	await search(to);
	await page.waitForURL(/q=/);
	t.is(await page.locator('a[data-row]').count(), 0);
	await go('Workspaces');
	await page.waitForURL(/\/workspaces$/);
	t.deepEqual(await page.locator('a[data-row]').allInnerTexts(), ['other']);
});

journey('a user switches to another workspace', async (t, {open, own}) => {
	await send('shop', own('shop@dest.example'));
	await send('third', own('third@dest.example'));
	const {page, choose, press, go} = await open(await visitorOf(service(), 'viewer'));
	for (const [workspace, other] of [
		['shop', 'third'],
		['third', 'shop'],
	] as const) {
		await page.goto('/overview');
		await choose('Workspace', workspace);
		await press('Switch');
		await go('Messages');
		await page.getByText(own(`${workspace}@dest.example`)).waitFor();
		t.is(await page.getByText(own(`${other}@dest.example`)).count(), 0);
	}
});

journey('an admin pauses a workspace, its messages are refused, and resumes it', async (t, {open, own, suitsAll}) => {
	const {page, press, type, go, open: openRow} = await open(await visitorOf(service(), 'admin', 'third'));
	await page.goto('/messages');
	await go('Workspaces');
	await openRow('third');
	await type('Reason', 'under review');
	await press('Pause');
	await page.getByText('Paused: sends are refused').waitFor();
	await suitsAll(page);
	t.is((await send('third', own('ann@dest.example'))).status, 403);
	await press('Resume');
	await page.getByText('Sending resumed').waitFor();
	t.is((await send('third', own('ann@dest.example'))).status, 202);
});

/** The key, on the only page that shows it. */
const shownKey = (page: Page): Promise<string> => page.locator('.copyable code').innerText();

journey('an admin creates, rotates and revokes a key', async (t, {open, own, suitsAll}) => {
	const name = own('short');
	const {page, press, type, choose, go} = await open(await visitorOf(service(), 'admin', 'shop'));
	await page.goto('/messages');
	await go('Keys');
	await press('New key', 'summary');
	await type('Name', name);
	await press('Create key');
	const first = await shownKey(page);
	await suitsAll(page);
	t.is(await answerTo(first), 200);

	await press('Back to the keys', 'a');
	await press('Change', 'summary', name);
	await choose('The old key expires', 'at once', name);
	await press('Replace', 'button', name);
	const second = await shownKey(page);
	t.not(second, first);
	t.is(await answerTo(second), 200);
	await waitFor('the end of the old key', async () => (await answerTo(first)) === 401);

	await press('Back to the keys', 'a');
	await press('Change', 'summary', name);
	await press('Revoke now…', 'summary', name);
	await press('Revoke now', 'button', name);
	await page.getByText(`Revoked ${name}.`).waitFor();
	t.is(await answerTo(second), 401);
});
