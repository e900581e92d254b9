import {rawMail} from '../../conformance/resources.ts';
import {visitorOf} from '../../helpers/dashboard.ts';
import {headerOf} from '../../helpers/mail-hosts.ts';
import {eventOf, postsOf} from '../../helpers/provider-posts.ts';
import type {Workspace} from '../../helpers/service.ts';
import {journeysOf, service, type Window} from './stage.ts';

const journey = journeysOf('smarthosts');

/** The URL and the secret, which the page shows only once. */
async function shownOn({page}: Window) {
	const [url = '', secret = ''] = await page.locator('dd .copyable code').allTextContents();
	return {path: new URL(url).pathname, secret};
}

async function post(path: string, to: string, ref: string, secret: string): Promise<number> {
	const [given] = postsOf('postmark', [eventOf.postmark('hard', {ref, to, id: `id-${to}`})], secret);
	return (await fetch(service().url + path, {method: 'POST', ...given})).status;
}

journey('a user creates a provider URL, a bounce arrives, and the URL is renewed and removed', async (t, stage) => {
	const shop = service().workspaces[stage.workspace] as Workspace;
	const {live, from, templates} = shop;
	const window = await stage.open(await visitorOf(service(), 'admin', stage.workspace));
	const {page, go, press, choose} = window;
	await page.goto('/messages');
	await go('Smarthosts');
	await page.getByText('No smarthosts yet.').waitFor();
	await stage.suitsAll(page);
	await press('New smarthost', 'summary');
	await choose('Provider', 'postmark');
	await press('Add smarthost');
	await page.getByText('Store the URL and secret now: they are not shown again.').waitFor();
	await page.getByText('your stream > Webhooks: add a webhook with this URL').waitFor();
	await stage.suitsAll(page);
	const first = await shownOn(window);
	await press('Back to the smarthosts', 'a');
	await page.getByText('none yet').waitFor();

	const to = `${stage.own('gone')}@dest.example`;
	const {body} = await live.post<{id: string}>('/v1/messages', {from, to, templateId: templates.plain});
	const ref = headerOf(Buffer.from(await rawMail(service(), shop, body.id)), 'X-Mailctl-Ref');
	t.is(await post(first.path, to, ref, `${first.secret}x`), 401);
	t.is(await post(first.path, to, ref, first.secret), 200);
	await go('Messages');
	await page.locator('.badge', {hasText: 'bounced'}).waitFor();
	await go('Smarthosts');
	await page.locator('td time').first().waitFor();
	t.is(await page.getByText('none yet').count(), 0);
	await stage.suitsAll(page);

	await press('Change', 'summary');
	await press('Rotate URL and secret');
	const second = await shownOn(window);
	t.notDeepEqual(second, first);
	t.is(await post(first.path, to, ref, first.secret), 404);
	t.is(await post(second.path, to, ref, second.secret), 200);

	await press('Back to the smarthosts', 'a');
	await press('Change', 'summary');
	await press('Remove smarthost…', 'summary');
	await press('Remove smarthost');
	await page.getByText('Removed postmark. Its events are now refused.').waitFor();
	await page.getByText('No smarthosts yet.').waitFor();
	t.is(await post(second.path, to, ref, second.secret), 404);
});
