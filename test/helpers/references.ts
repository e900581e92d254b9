import {existsSync, readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';

const made = new Set(['.git', '.peers', 'data', 'dist', 'node_modules']);

/** Every file of the repository, as paths from its root. */
export const repository: readonly string[] = readdirSync('.', {withFileTypes: true})
	.filter(({name}) => !made.has(name))
	.flatMap(entry =>
		entry.isDirectory()
			? readdirSync(entry.name, {recursive: true, withFileTypes: true})
					.filter(one => one.isFile())
					.map(one => path.join(one.parentPath, one.name))
			: [entry.name],
	);

const rulesPage = 'docs/reference/delivery-rules.md';
const rules = new Set([...readFileSync(rulesPage, 'utf8').matchAll(/\*\*(R\d+\.\d+)\*\*/g)].map(([, rule]) => rule));
const folders = new Set(repository.flatMap(file => parentsOf(file)));
const decisions = new Set(
	repository.flatMap(file => /^docs\/internals\/decisions\/(\d{4})-/.exec(file)?.[1] ?? []).map(Number),
);

/** Files named by a link, by a path or by a bare name with an extension, as a reader would look for them. */
const namedFile = /(?<![\w./:@~$*-])(?:[\w.-]+\/)*[\w.-]*\w\.(?:md|ts|mjs|sql)(?![\w*-])/g;
const namedFolder = /(?<![\w./:@~$*-])(?:docs|src|test|config|scripts|migrations)\/(?:[\w.-]+\/)*(?![\w.*])/g;
const link = /\]\(([^)\s]+)\)/g;
const heading = /(docs\/[\w/-]+\.md), ([A-Z][\w /-]*\w)/g;

/** What a comment or a page refers to and the repository does not have: files, folders, headings, rules, decisions. */
export function brokenReferences(file: string, text: string): string[] {
	const prose = proseOf(file, text);
	const links = file.endsWith('.md') ? [...prose.matchAll(link)].map(([, target]) => target as string) : [];
	const bare = prose.replaceAll(link, ']');
	return [
		...links.filter(target => !leads(file, target)),
		...[...bare.matchAll(namedFile)].map(([name]) => name).filter(name => !isFile(file, name)),
		...[...bare.matchAll(namedFolder)].map(([name]) => name).filter(name => !folders.has(name.slice(0, -1))),
		...[...bare.matchAll(heading)].flatMap(([all, page, title]) =>
			hasHeading(`${page}`, `${title}`) ? [] : [all],
		),
		...[...bare.matchAll(/\bR\d\.\d+\b/g)].map(([rule]) => rule).filter(rule => !rules.has(rule)),
		...[...bare.matchAll(/\b[Dd]ecision (\d+)/g)].flatMap(([all, n]) => (decisions.has(Number(n)) ? [] : [all])),
	];
}

/** Comments of code, whole pages otherwise; without code blocks, which show other people's files. */
function proseOf(file: string, text: string): string {
	if (file.endsWith('.md')) {
		return text.replaceAll(/^```.*?^```$|<!--.*?-->/gms, '');
	}
	if (/\.(ts|js|mjs)$/.test(file)) {
		return text
			.split('\n')
			.flatMap(line => /^\s*(?:\/?\*|\/\/).*|(?<=[\s;{(,])\/\/ .*/.exec(line)?.[0] ?? [])
			.join('\n');
	}
	return file.endsWith('.json')
		? (text.match(/"\$comment": .*/g) ?? []).join('\n')
		: text
				.split('\n')
				.filter(line => /^\s*(#|--)/.test(line))
				.join('\n');
}

function isFile(from: string, name: string): boolean {
	const compiled = name.replace(/^dist\/(.*)\.js$/, '$1.ts');
	return repository.some(file => file === compiled || file.endsWith(`/${compiled}`)) || leads(from, name);
}

/** Whether a link leads to a file, a folder or a heading. */
function leads(from: string, target: string): boolean {
	if (/^(https?|mailto):/.test(target)) {
		return true;
	}
	const [name = '', anchor] = target.split('#');
	const file = name === '' ? from : path.join(path.dirname(from), name);
	return anchor === undefined
		? repository.includes(file) || folders.has(file.replace(/\/$/, ''))
		: repository.includes(file) && headingsOf(file).map(anchorOf).includes(anchor);
}

/** A title may go on after its words: `Memory of a large body` is found by `Memory`. */
function hasHeading(page: string, title: string): boolean {
	return existsSync(page) && headingsOf(page).some(one => title.startsWith(one) || one.startsWith(title));
}

const headingsOf = (page: string): string[] =>
	[...readFileSync(page, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, title]) => `${title}`);

/** As GitHub makes it. */
const anchorOf = (title: string): string =>
	title
		.toLowerCase()
		.replaceAll(/[^\p{L}\p{N} _-]/gu, '')
		.replaceAll(' ', '-');

function parentsOf(file: string): string[] {
	const parent = path.dirname(file);
	return parent === '.' ? [] : [parent, ...parentsOf(parent)];
}
