import type {Page} from 'playwright-core';
import {visitorOf} from '../../helpers/dashboard.ts';
import {journeysOf, service} from './stage.ts';

const journey = journeysOf('templates');

const operator = () => visitorOf(service(), 'operator', 'shop');
const shownBy = (page: Page) => page.frameLocator('iframe:visible').locator('body');

journey('a user edits a template beside its preview, and rolls it back', async (t, {open, own, suitsAll}) => {
	const {page, go, press, type, open: openRow} = await open(await operator());
	await page.goto('/messages');
	await go('Templates');
	await openRow(own('receipt'));
	await shownBy(page).getByText('Total 19.90').waitFor();
	await press('Edit', 'a');
	const steps = await page.evaluate('history.length');
	await type('Source', '<p>Total {{ total</p>');
	await page.getByText('Fix these problems before you save:').waitFor();
	await suitsAll(page);
	await type('Source', '<p>Altogether {{ currency }} {{ total }}</p>');
	await page.getByText('Not in the sample: currency.').waitFor();
	await type('Sample variables (JSON, all languages)', '{"number": 1043, "total": "20", "currency": "EUR"}');
	await shownBy(page).getByText('Altogether EUR 20').waitFor();
	await page.getByText('The checks found no problems.').waitFor();
	t.is(await page.locator('iframe').count(), 1);
	t.is(await page.evaluate('history.length'), steps, 'previews are no steps back');
	await press('Save as a new version');
	await page.getByText('Saved version 2. New messages use it.').waitFor();
	await shownBy(page).getByText('Altogether EUR 20').waitFor();
	await press('Roll back to 1');
	await page.getByText('Saved version 3, equal to version 1.').waitFor();
	await shownBy(page).getByText('Total 19.90').waitFor();
});

journey('a user compares two versions of a template', async (t, {open, own, suitsAll}) => {
	const visitor = await operator();
	const {page, go, press, choose, open: openRow} = await open(visitor);
	const id = service().workspaces.shop?.templates[own('letter')] ?? '';
	for (const [begun, subject] of [
		['1', 'The second'],
		['2', 'The third'],
	] as const) {
		const fields = {begun, locale: '', kind: 'html', source: '<p>Total {{ total }}</p>', text: '', sample: ''};
		// What the sample lacks was seen.
		const asked = await visitor.submit(`/templates/${id}/edit`, {...fields, subject});
		const [, seen = ''] = /name="seen" form="editor" value="([^"]*)"/.exec(asked.text) ?? [];
		await visitor.submit(`/templates/${id}/edit`, {...fields, subject, seen});
	}
	await page.goto('/messages');
	await go('Templates');
	await openRow(own('letter'));
	await press('since 2', 'a');
	t.deepEqual(
		[await page.locator('del').first().innerText(), await page.locator('ins').first().innerText()],
		['- The second', '+ The third'],
	);
	await suitsAll(page);
	await choose('From', 'Version 1');
	await choose('To', 'Version 2');
	await press('Compare');
	t.deepEqual(
		[await page.locator('del').first().innerText(), await page.locator('ins').first().innerText()],
		['- Receipt {{ number }}', '+ The second'],
	);
});

journey('a user creates and selects a layout, and reviews a change before saving it', async (t, one) => {
	const {open, own, suitsAll} = one;
	const {page, go, press, type, choose, open: openRow} = await open(await operator());
	await page.goto('/messages');
	await go('Layouts');
	await press('New layout', 'summary');
	await type('Name', own('frame'));
	await press('Open the editor');
	await page.getByText('Nothing uses it yet.').waitFor();
	await type('body.mjml', '');
	await type('body.html', '<main>{{ content }}</main>');
	await press('Show what would change');
	await page.getByText('Saving this creates 0 new template versions.').waitFor();
	await press('Save');
	await page.getByText(`Saved ${own('frame')}`).waitFor();
	await go('Templates');
	await openRow(own('card'));
	await press('Edit', 'a');
	await choose('Layout (all languages)', own('frame'));
	await press('Save as a new version');
	await page.getByText('Saved version 2. New messages use it.').waitFor();
	await shownBy(page).locator('main').getByText('Total 19.90').waitFor();
	await go('Layouts');
	await openRow(own('frame'));
	await page.getByText(`Used by ${own('card')}.`).waitFor();
	await type('body.html', '<main>{{ content }}<footer>Acme</footer></main>');
	await press('Show what would change');
	await page.getByText('Saving this creates 1 new template version.').waitFor();
	t.is(await page.locator('ins').first().innerText(), '+ <main><p>Total {{ total }}</p><footer>Acme</footer></main>');
	await suitsAll(page);
	await press('Save');
	await page.getByText(`${own('card')} is now at version 3`).waitFor();
});

journey('a user marks a variable as sensitive, and a message no longer shows it', async (t, {open, own, suitsAll}) => {
	const {page, go, press, type, open: openRow} = await open(await operator());
	await page.goto('/messages');
	await go('Templates');
	await openRow(own('code'));
	await type('Sensitive variables', 'total');
	await suitsAll(page);
	await press('Save');
	await page.getByText('Saved. The settings apply to new messages.').waitFor();
	await press('Send a test', 'summary');
	await type('Recipient', `${own('code')}@dest.example`);
	await press('Send it');
	await page.getByText('is on its way to').waitFor();
	await press('Text', 'a');
	await page.getByText('Total •••').waitFor();
	await press('Variables', 'a');
	const shown = await page.locator('main').innerText();
	t.true(shown.includes('1042') && shown.includes('•••') && !shown.includes('19.90'), shown);
});
