import {readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {journeysOf} from '../helpers/journeys.ts';
import {serviceOf} from '../helpers/service.ts';

const service = serviceOf(test, {workspaces: {mouse: [], keys: []}});
const journey = journeysOf(test, 'journeys-recipients', service);
const lines = 100_000;

journey('a list of 100,000 addresses is imported, one of them found and let go', async (t, {open, way, suitsAll}) => {
	const {page, go, press, attach, search} = await open(await visitorOf(service(), 'operator', way));
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
	await page.getByText('The file is read.').waitFor({timeout: 120_000});
	t.regex(await page.locator('main').innerText(), /Added\s+100,000/);

	await go('Suppressions');
	await search('P77777@dest.example');
	await press('Remove');
	await page.getByText('p77777@dest.example gets mail again.').waitFor();
});

journey('suppressions are exported', async (t, {open, own, way}) => {
	const {page, go, press, type} = await open(await visitorOf(service(), 'operator', way));
	await page.goto('/messages');
	await go('Suppressions');
	await press('Add', 'summary');
	await type('Address', own('ann@dest.example'));
	await press('Add');
	await page.getByText(`${own('ann@dest.example')} gets no mail from now on.`).waitFor();
	await press('by hand', 'a');
	const [download] = await Promise.all([page.waitForEvent('download'), press('Export', 'a')]);
	t.is(download.suggestedFilename(), 'suppressions.csv');
	const [header = '', ...rows] = (await readFile(await download.path(), 'utf8')).trim().split(/\r?\n/);
	t.regex(header, /recipient|address/);
	t.is(rows.length, 1);
	t.true(rows[0]?.includes(own('ann@dest.example')));
});
