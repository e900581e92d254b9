// Counts the lines of a noun in all interfaces: its operations, API routes, commands, pages, and its part of `apply`.
// Run it before and after a noun moves to `src/resources/`: `node scripts/measure-faces.js`. Store, tests and the generated
// client are not counted.
import {execFileSync} from 'node:child_process';
import {readFileSync} from 'node:fs';

const folders = 'ops admin domains users api cli dashboard declared'.split(' ').map(name => `src/${name}`);
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...folders], {
	encoding: 'utf8',
})
	.split('\n')
	.filter(file => file.endsWith('.ts'));

/** The files of a noun, and its functions and constants in files shared by several nouns. */
const nouns = {
	topics: [/\/topics?\.ts$/, /^(performTopic|topicView)$/],
	suppressions: [/\/(suppressions?|suppression-file)\.ts$/, /^suppressionView$/],
	keys: [/(ops|admin|cli|installation)\/keys?\.ts$/, /^performKey$/],
	contacts: [/\/contacts?\.ts$/, /^contactView$/],
	senders: [/\/senders?\.ts$/, /^(performSender|changeInTurn|senderView)$/],
	webhooks: [
		/(ops|admin|cli|routes)\/webhooks?\.ts$|dashboard\/webhooks\/(?!deliver)/,
		/^(performWebhook|endpointView)$/,
	],
	users: [/\/users?\.ts$/, /^userView$/],
	workspaces: [/(ops|admin)\/workspaces\.ts$|cli\/workspace\/|installation\/workspace/, /^inputOf$/],
	shared: [/ops\/operation\.ts$|api\/api-route\.ts$|dashboard\/operation-form\.ts$/, /^$/],
};

/** Returns the number of lines of top-level functions and constants with these names, including their comments. */
function blockLines(text, names) {
	const blocks = text.matchAll(
		/^(?:\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?(?:export )?(?:async )?(?:function|const) (\w+)[\s\S]*?\n[}\]].*\n/gm,
	);
	return [...blocks]
		.filter(([, name]) => names.test(name))
		.reduce((sum, [block]) => sum + block.split('\n').length - 1, 0);
}

for (const [noun, [own, names]] of Object.entries(nouns)) {
	const parts = files.map(file => {
		const text = readFileSync(file, 'utf8');
		return [file.replace('src/', ''), own.test(file) ? text.split('\n').length - 1 : blockLines(text, names)];
	});
	const counted = parts.filter(([, lines]) => lines > 0);
	const sum = counted.reduce((total, [, lines]) => total + lines, 0);
	console.log(
		`${noun.padEnd(14)} ${String(sum).padStart(5)}   ${counted.map(([file, lines]) => `${file} ${lines}`).join(', ')}`,
	);
}
