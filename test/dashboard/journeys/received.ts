import {openStore} from '../../../src/store/store.ts';
import {visitorOf} from '../../helpers/dashboard.ts';
import {receivedIn} from '../../helpers/dashboard-routes.ts';
import type {Workspace} from '../../helpers/service.ts';
import {journeysOf, service} from './stage.ts';

const journey = journeysOf('received');

/** Marks the domain as verified, as if DNS had its records. */
async function verify(domain: string): Promise<void> {
	const store = await openStore(service().store);
	try {
		const at = '2026-06-09T10:15:30.123Z';
		await store.writer.transaction(trx =>
			trx('domains').where({name: domain}).update({state: 'verified', verified_at: at}),
		);
	} finally {
		await store.close();
	}
}

journey('a user adds an address, reads a received message and its file, and deletes it', async (t, stage) => {
	const {workspaces, store} = service();
	const {id} = workspaces[stage.workspace] as Workspace;
	const domain = `${stage.workspace}.example`;
	const {page, go, open, press, search, type} = await stage.open(
		await visitorOf(service(), 'admin', stage.workspace),
	);
	await page.goto('/messages');
	await go('Received');
	await page.getByText('No messages yet.').waitFor();
	await page.getByText('No addresses yet.').waitFor();
	await stage.suitsAll(page);
	await verify(domain);
	await press('New address', 'summary');
	await type('Address', `support@in.${domain}`);
	await stage.suitsAll(page);
	await press('Add address');
	await page.getByText(`Mail to support@in.${domain} is received once its MX points here.`).waitFor();

	await receivedIn(store, id);
	await go('Received');
	await stage.suitsAll(page);
	await search('no such words');
	await page.getByText('No messages match.').waitFor();
	await press('Show all messages', 'a');
	await search('ada@example.net');
	await open('ada@example.net');
	await go('Received');
	await search('secret ANSWER');
	await open('ada@example.net');
	const mail = page.frameLocator('iframe');
	await mail.getByText('Thank you!').waitFor();
	await page.getByText('Remote images are not loaded.').waitFor();
	t.is(await page.locator('a[download]', {hasText: 'one.png'}).count(), 1);
	t.is(await page.locator('iframe').getAttribute('sandbox'), '');
	for (const n of ['2', 'x', '99999999999', '1.5']) {
		t.is((await page.request.get(`${page.url()}/attachments/${n}`)).status(), 404, n);
	}
	await stage.suitsAll(page);
	await press('More', 'summary');
	await press('Delete message…', 'summary');
	await stage.suitsAll(page);
	await press('Delete message');
	await page.getByText('Message deleted.').waitFor();
	await page.getByText('No messages yet.').waitFor();
	await press('More', 'summary');
	await press('Remove address…', 'summary');
	await press('Remove address');
	await page.getByText(`Mail to support@in.${domain} is now rejected.`).waitFor();
});
