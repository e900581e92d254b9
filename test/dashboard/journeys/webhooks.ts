import {visitorOf} from '../../helpers/dashboard.ts';
import type {Workspace} from '../../helpers/service.ts';
import {waitFor} from '../../helpers/wait.ts';
import {journeysOf, receiver, service} from './stage.ts';

const journey = journeysOf('webhooks');

type Endpoint = {readonly workspace: string; readonly path: string; readonly id: string};

/** Sends messages whose events the receiver refuses until they are exhausted. */
async function sendInOutage(addresses: readonly string[], {workspace, path, id}: Endpoint): Promise<void> {
	const {live, from, templates} = service().workspaces[workspace] as Workspace;
	receiver.behave(path, (_, response) => response.writeHead(503).end());
	for (const to of addresses) {
		await live.post('/v1/messages', {from, to, templateId: templates.plain});
	}
	await waitFor('its deliveries are exhausted', async () => {
		const command = ['webhook', 'deliveries', id, '--status', 'exhausted', '--workspace', workspace];
		return (await service().program.cli<unknown[]>(...command)).length === addresses.length;
	});
	receiver.behave(path, (_, response) => response.end());
}

journey('a user replays webhooks after an outage', async (_, {open, workspace, suitsAll}) => {
	const path = `/hooks-of-${workspace}`;
	const command = ['webhook', 'add', receiver.url(path), '--event', 'delivered', '--workspace', workspace];
	const {id} = await service().program.cli<{id: string}>(...command);
	const endpoint = {workspace, path, id};
	await sendInOutage(['ann@dest.example', 'bob@dest.example'], endpoint);
	const {page, go, press, open: openRow} = await open(await visitorOf(service(), 'operator', workspace));
	await page.goto('/messages');
	await go('Webhooks');
	await page.getByText('failing', {exact: true}).waitFor();
	await suitsAll(page);
	await openRow(receiver.url(path));
	await press('Replay many', 'summary');
	await press('Replay');
	await page.getByText('Deliveries being posted again: 2.').waitFor();
	await page.locator('#deliveries .badge.good').nth(1).waitFor();
	await page.locator('#state').getByText('active').waitFor();

	await sendInOutage(['cy@dest.example'], endpoint);
	await go('Webhooks');
	await openRow(receiver.url(path));
	await openRow('cy@dest.example');
	await page.getByRole('heading', {name: 'delivered: cy@dest.example'}).waitFor();
	await suitsAll(page);
	await press('Replay');
	await page.getByText('The delivery is being posted again.').waitFor();
	await page.locator('#delivery .badge.good').waitFor();
});

journey('a user adds and tests an endpoint', async (t, {open, workspace, suitsAll}) => {
	const path = `/tested-by-${workspace}`;
	await service().program.cli(
		'webhook',
		'add',
		receiver.url('/other'),
		'--event',
		'opened',
		'--workspace',
		workspace,
	);
	const {page, go, press, type, tick} = await open(await visitorOf(service(), 'admin', workspace));
	await page.goto('/messages');
	await go('Webhooks');
	await press('Add an endpoint', 'summary');
	await type('URL', receiver.url(path));
	await tick('bounced: the message cannot be delivered');
	await press('Add the endpoint');
	receiver.behave(path, (_, response) => response.writeHead(500).end());
	await press('Send a test');
	await page.getByText('The test event was not acknowledged: the endpoint responded with 500').waitFor();
	await suitsAll(page);
	receiver.behave(path, (_, response) => response.end());
	await press('Send a test');
	await page.getByText('The test event was acknowledged').waitFor();
	t.is(receiver.postsTo(path).length, 2);
	await press('Show', 'a');
	await page.getByText(/^whsec_/).waitFor();
});
