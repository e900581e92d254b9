import {mkdtemp, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {dmarcMail, reporters, reportSigner} from '../../helpers/aggregate-mails.ts';
import {visitorOf} from '../../helpers/dashboard.ts';
import {publish, type ToPublish} from '../../helpers/domain-zone.ts';
import {journeysOf, receiver, service} from './stage.ts';

const journey = journeysOf('domains');

journey('a user adds a domain and watches its DNS turn green', async (t, {open, own, suitsAll}) => {
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

journey('a user sees who sends as the domain, and copies the next policy', async (t, {open, own, suitsAll}) => {
	const {program} = service();
	const name = own('sends.example');
	await program.cli('domain', 'add', name, '--workspace', 'shop');
	const {records} = await program.cli<{records: ToPublish[]}>('domain', 'show', name, '--workspace', 'shop');
	publish(receiver.zone, records);
	const signer = await reportSigner(own('reporter.example'));
	Object.assign(receiver.zone, signer.zone);
	await program.cli('domain', 'verify', name, '--workspace', 'shop');
	const {page, go, press, copy} = await open(await visitorOf(service(), 'admin', 'shop'));
	await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
	await page.goto('/messages');
	await go('Domains');
	await press(name, 'a');
	await press('Who sends as you', 'a');
	await page.getByText('No reports yet.').waitFor();
	await suitsAll(page);

	const folder = await mkdtemp(join(tmpdir(), 'mailctl-dmarc-'));
	const today = Math.floor(Date.now() / 86_400_000) * 86_400;
	for (const [index, reporter] of reporters.slice(0, 8).entries()) {
		const begin = today - (index + 1) * 86_400;
		const facts = {org: '', email: '', id: `r${index}`, domain: name, begin, end: begin + 86_399};
		// All of them sign with one domain, so it has to be their own.
		const mail = dmarcMail(
			{...reporter, from: `dmarc@${own('reporter.example')}`},
			{
				...facts,
				records: [
					{ip: '192.0.2.1', n: 150, dkim: 'pass', spf: 'pass'},
					{
						ip: '2001:db8:1234:5678:9abc:def0:1234:5678',
						n: 3,
						dkim: 'fail',
						spf: 'fail',
						mailFrom: 'bulk.example',
					},
				],
			},
		);
		await writeFile(join(folder, `${index}.eml`), await signer.sign(mail));
	}
	await program.cli('bounce', 'ingest', folder);
	await press('7 days', 'a');
	await page.getByText('1,200 of your 1,200 messages are aligned; it stops 24 messages of others').waitFor();
	await page.getByText('DKIM none, SPF none for bulk.example').filter({visible: true}).waitFor();
	await suitsAll(page);
	await page.setViewportSize({width: 375, height: 800});
	const frame = page.getByRole('region', {name: 'Sources of messages'});
	t.is(await frame.evaluate(part => part.scrollWidth - part.clientWidth), 0, 'a phone shows all of a source');
	t.true(await frame.getByText('bulk.example').first().isVisible());

	await copy(`the value of _dmarc.${name}`);
	await page.getByText('Copied', {exact: true}).waitFor();
	t.is(await page.evaluate('navigator.clipboard.readText()'), 'v=DMARC1; p=quarantine');
	await press('Domain', 'a');
	await page.getByRole('heading', {name}).first().waitFor();
});
