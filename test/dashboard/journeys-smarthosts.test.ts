import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {type FakeMx, startFakeMx} from '../helpers/fake-mx.ts';
import {journeysOf, type Window} from '../helpers/journeys.ts';
import {headerOf} from '../helpers/mail-hosts.ts';
import {eventOf, postsOf} from '../helpers/provider-posts.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

let relay: FakeMx;
const service = serviceOf(test, {
	workspaces: {mouse: [], keys: []},
	async settings(scope) {
		relay = await startFakeMx(scope, {dot: '250 2.0.0 Ok: queued as 4BF2'});
		return {MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: `smtp://127.0.0.1:${relay.port}?tls=none`};
	},
});
const journey = journeysOf(test, 'journeys-smarthosts', service);

/** URL and secret, as the page shows them this once. */
async function shownOn({page}: Window) {
	const [url = '', secret = ''] = await page.locator('dd .copyable code').allTextContents();
	return {path: new URL(url).pathname, secret};
}

async function post(path: string, to: string, ref: string, secret: string): Promise<number> {
	const [given] = postsOf('postmark', [eventOf.postmark('hard', {ref, to, id: `id-${to}`})], secret);
	return (await fetch(service().url + path, {method: 'POST', ...given})).status;
}

journey('a provider’s URL is made, its bounce arrives, the URL is renewed and removed', async (t, stage) => {
	const {live, from, templates} = service().workspaces[stage.way] as Workspace;
	const window = await stage.open(await visitorOf(service(), 'admin', stage.way));
	const {page, go, press, choose} = window;
	await page.goto('/messages');
	await go('Smarthosts');
	await page.getByText('No smarthosts yet.').waitFor();
	await stage.suitsAll(page);
	await press('New smarthost', 'summary');
	await choose('Provider', 'postmark');
	await press('Make the URL');
	await page.getByText('Keep URL and secret now: they are shown only this time.').waitFor();
	await page.getByText('your stream > Webhooks: add a webhook with this URL').waitFor();
	await stage.suitsAll(page);
	const first = await shownOn(window);
	await press('To the smarthosts', 'a');
	await page.getByText('none yet').waitFor();

	const to = `${stage.own('gone')}@dest.example`;
	await live.post('/v1/messages', {from, to, templateId: templates.plain});
	const mail = await waitFor('it went out', () => relay.received.find(one => one.to.some(each => each.includes(to))));
	const ref = headerOf(mail.data, 'X-Mailctl-Ref');
	t.is(await post(first.path, to, ref, `${first.secret}x`), 401);
	t.is(await post(first.path, to, ref, first.secret), 200);
	await go('Messages');
	await page.locator('.badge', {hasText: 'bounced'}).waitFor();
	await go('Smarthosts');
	await page.locator('td time').first().waitFor();
	t.is(await page.getByText('none yet').count(), 0);
	await stage.suitsAll(page);

	await press('Change', 'summary');
	await press('Renew the URL');
	const second = await shownOn(window);
	t.notDeepEqual(second, first);
	t.is(await post(first.path, to, ref, first.secret), 404);
	t.is(await post(second.path, to, ref, second.secret), 200);

	await press('To the smarthosts', 'a');
	await press('Change', 'summary');
	await press('Remove it');
	await page.getByText('Events of postmark are refused from now on.').waitFor();
	await page.getByText('No smarthosts yet.').waitFor();
	t.is(await post(second.path, to, ref, second.secret), 404);
});
