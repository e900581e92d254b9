import test from 'ava';
import fc from 'fast-check';
import {maxTrackedLinks, readAttribute, rewrite} from '../../../src/compose/links/rewrite.ts';

const openUrl = 'https://mail.test/t/o/pixel';
const pixel = `<img src="${openUrl}" width="1" height="1" alt="">`;
const prefix = 'https://mail.test/t/c/';
const clickUrl = (url: string) =>
	/^https?:\/\//i.test(url) ? `${prefix}${Buffer.from(url).toString('base64url')}` : null;
const tracked = (url: string) => clickUrl(url) as string;
const clicks = (html: string) => rewrite(html, {openUrl: null, clickUrl}).html;

const rewritten: ReadonlyArray<readonly [html: string, becomes: string]> = [
	['<a href="https://x.test/">x</a>', `<a href="${tracked('https://x.test/')}">x</a>`],
	["<a href='http://x.test/'>x</a>", `<a href='${tracked('http://x.test/')}'>x</a>`],
	['<a href=https://x.test/a>x</a>', `<a href=${tracked('https://x.test/a')}>x</a>`],
	['<a href=https://x.test/>x</a>', `<a href=${tracked('https://x.test/')}>x</a>`],
	[
		'<A\n\tCLASS="b"\n HREF = "HTTPS://X.test/"\n>x</A>',
		`<A\n\tCLASS="b"\n HREF = "${tracked('HTTPS://X.test/')}"\n>x</A>`,
	],
	['<area shape="rect" href="https://x.test/">', `<area shape="rect" href="${tracked('https://x.test/')}">`],
	['<a href=" https://x.te\nst/a ">x</a>', `<a href="${tracked('https://x.test/a')}">x</a>`],
	['<a href="https://x.test/?a=1&amp;b=2">', `<a href="${tracked('https://x.test/?a=1&b=2')}">`],
	[
		'<a href="https://x.test/?a=1&b=2&copy=3&amp=4">',
		`<a href="${tracked('https://x.test/?a=1&b=2&copy=3&amp=4')}">`,
	],
	['<a href="https&#58;&#x2F;/x.test/?q=&quot;&#39;">', `<a href="${tracked('https://x.test/?q="\'')}">`],
	[
		'<a href="https://x.test/" href="https://y.test/">',
		`<a href="${tracked('https://x.test/')}" href="https://y.test/">`,
	],
	[
		'<a title="<a href=\'https://y.test/\'>" href="https://x.test/">',
		`<a title="<a href='https://y.test/'>" href="${tracked('https://x.test/')}">`,
	],
	['<a/href="https://x.test/"/>', `<a/href="${tracked('https://x.test/')}"/>`],
	['a < b <a href="https://x.test/">', `a < b <a href="${tracked('https://x.test/')}">`],
	['<!-- a > b --><a href="https://x.test/">', `<!-- a > b --><a href="${tracked('https://x.test/')}">`],
	['<!--><a href="https://x.test/">', `<!--><a href="${tracked('https://x.test/')}">`],
	['<!---><a href="https://x.test/">', `<!---><a href="${tracked('https://x.test/')}">`],
	['<!----!><a href="https://x.test/">', `<!----!><a href="${tracked('https://x.test/')}">`],
	[
		'<!--[if !mso]><!--><a href="https://x.test/"><!--<![endif]-->',
		`<!--[if !mso]><!--><a href="${tracked('https://x.test/')}"><!--<![endif]-->`,
	],
	[
		'<![if !mso]><a href="https://x.test/"><![endif]>',
		`<![if !mso]><a href="${tracked('https://x.test/')}"><![endif]>`,
	],
	[
		'<style>a > b {}</style><a href="https://x.test/">',
		`<style>a > b {}</style><a href="${tracked('https://x.test/')}">`,
	],
];
for (const [html, becomes] of rewritten) {
	test(`tracked: ${html}`, t => {
		t.is(clicks(html), becomes);
	});
}

for (const html of [
	'<a href="mailto:a@b.test">',
	'<a href="tel:+49123">',
	'<a href="#top">',
	'<a href="">',
	'<a href>',
	'<a>',
	'<a name="https://x.test/">',
	'<a href="javascript:alert(1)">',
	'<a href="//x.test/">',
	'<a href="/path">',
	'<a href="https://x.test/" data-notrack>',
	'<a DATA-NoTrack href="https://x.test/">',
	'<a href=https://x.test/ data-notrack="">',
	'<link href="https://x.test/">',
	'<abbr href="https://x.test/">',
	'<v:roundrect href="https://x.test/">',
	'<img src="https://x.test/">',
	'</a href="https://x.test/">',
	'<!-- <a href="https://x.test/"> -->',
	'<!--!><a href="https://x.test/"> -->',
	'<!--[if mso]><a href="https://x.test/"></a><![endif]-->',
	'<style><a href="https://x.test/"></style>',
	'<SCRIPT><a href="https://x.test/"></script >',
	'<title><a href="https://x.test/"></title>',
	'<textarea><a href="https://x.test/"></textarea>',
	'<plaintext><a href="https://x.test/">',
	'<p title="<a href=https://x.test/>">',
	'<a href="https://x.test/?n=caf&eacute;">',
	'<a href="https://x.test/?n=caf&eacute">',
	'<a href="https://x.test/?a&reg_id=1">',
	'<a href="https://x.test/&constructor;">',
	'<a href="https://x.test/&#128;">',
	'<a href="https://x.test/&#xD800;">',
	'<a href="https://x.test/" title="never closed>',
	'<a href="https://x.test/',
	'<a href="https://x.test/"',
]) {
	test(`left alone: ${html}`, t => {
		t.is(clicks(html), html);
	});
}

for (const [html, becomes] of [
	['<p>x</p>', `<p>x</p>${pixel}`],
	['', pixel],
	['<body><p>x</p></body></html>', `<body><p>x</p>${pixel}</body></html>`],
	['</body>x</BODY\n>y', `</body>x${pixel}</BODY\n>y`],
	['<body>x<!-- </body> -->', `<body>x<!-- </body> -->${pixel}`],
	['<body>x</body><!-- never', `<body>x${pixel}</body><!-- never`],
	['<p>x<!-- never', `<p>x${pixel}<!-- never`],
	['<p>x<a href="', `<p>x${pixel}<a href="`],
	['<p>x<style> a {}', `<p>x${pixel}<style> a {}`],
	['</body><a href="https://x.test/">', `${pixel}</body><a href="${tracked('https://x.test/')}">`],
] as const) {
	test(`pixel position: ${html}`, t => {
		t.is(rewrite(html, {openUrl, clickUrl}).html, becomes);
	});
}

test('tracks opens without clicks, clicks without opens, or nothing', t => {
	const html = '<a href="https://x.test/">x</a>';
	t.deepEqual(rewrite(html, {openUrl: null, clickUrl: null}), {html, firstLink: null, links: 0});
	t.deepEqual(rewrite(html, {openUrl, clickUrl: null}), {html: html + pixel, firstLink: null, links: 0});
	t.is(rewrite(`<a href="#a"><a href="http://y.test/">${html}`, {openUrl, clickUrl}).firstLink, 'http://y.test/');
});

test('tracks a repeated link by one URL, and limits the number of tracked links', t => {
	const asked: string[] = [];
	const ask = (url: string) => {
		asked.push(url);
		return clickUrl(url);
	};
	const twice = '<a href="https://x.test/"><a href="https&colon;x"><a href="https://x.test/">';
	rewrite(twice, {openUrl: null, clickUrl: ask});
	t.deepEqual(asked, ['https://x.test/']);

	const many = Array.from({length: maxTrackedLinks + 1}, (_, n) => `<a href="https://x.test/${n}">`).join('');
	t.is(clicks(many).split(prefix).length - 1, maxTrackedLinks);
	t.true(clicks(many).endsWith(`<a href="https://x.test/${maxTrackedLinks}">`));
});

test('escapes a tracked URL for any attribute', t => {
	const hostile = () => `https://t.test/"'<>&amp`;
	t.is(
		rewrite('<a href="https://x.test/">', {openUrl: null, clickUrl: hostile}).html,
		'<a href="https://t.test/&quot;&#39;&lt;&gt;&amp;amp">',
	);
});

/** Reverts the tracked URLs. Each must stand for the text of the input up to the end of the value. */
function undone(input: string, output: string): string {
	let text = '';
	const parts = output.split(/(https:\/\/mail\.test\/t\/c\/[\w-]*)/);
	for (const [index, part] of parts.entries()) {
		if (index % 2 === 0) {
			text += part;
			continue;
		}
		const next = parts[index + 1]?.[0];
		const end = next === undefined ? input.length : input.indexOf(next, text.length);
		const value = input.slice(text.length, end);
		// What browsers strip. `trim` would leave NUL and strip other Unicode spaces.
		const meant = readAttribute(value)
			?.replace(/[\t\n\r]/g, '')
			.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '');
		if (meant !== Buffer.from(part.slice(prefix.length), 'base64url').toString()) {
			throw new Error(`${part} does not stand for ${value}`);
		}
		text += value;
	}
	return text;
}

const pieces = fc.array(
	fc.oneof(
		fc.constantFrom(
			...[
				'<',
				'</',
				'>',
				'<a',
				'<area ',
				'<A ',
				' href=',
				'href',
				'=',
				'"',
				"'",
				' ',
				'\n',
				'/',
				'<!--',
				'-->',
				'--!>',
				'-',
			],
			...[
				'<!',
				'<?',
				'<style>',
				'</style>',
				'<script',
				'<title>',
				'</title',
				'</body>',
				'data-notrack',
				'&amp;',
				'&',
				'#',
			],
			...[
				'https://x.test/a',
				'http://y.test/?a=1&b=2',
				'mailto:a@b.test',
				'<a href="https://z.test/">',
				'<p title=',
				'\0',
			],
		),
		fc.string({unit: 'grapheme', maxLength: 4}),
	),
	{maxLength: 40},
);

test('changes nothing but tracked URLs and the pixel in any HTML', t => {
	fc.assert(
		fc.property(pieces, parts => {
			const html = parts.join('');
			const {html: output} = rewrite(html, {openUrl, clickUrl});
			const at = output.lastIndexOf(pixel);
			t.is(undone(html, output.slice(0, at) + output.slice(at + pixel.length)), html);
		}),
		{numRuns: 3000},
	);
});

test('does not rewrite a message again if own links are excluded', t => {
	const ours = (url: string) => (url.startsWith('https://mail.test/') ? null : clickUrl(url));
	fc.assert(
		fc.property(pieces, parts => {
			const {html} = rewrite(parts.join(''), {openUrl: null, clickUrl: ours});
			t.is(rewrite(html, {openUrl: null, clickUrl: ours}).html, html);
		}),
		{numRuns: 1000},
	);
});

for (const piece of [
	'<',
	'<a ',
	'<a href="',
	"<a href='",
	'<a href=x ',
	'<!--',
	'<!-',
	'<style>',
	'</style',
	'<a href="https://x.test/">',
	'<a href="&',
	'<a = ',
	' ',
	'&amp',
	'<?',
	'<title></titl',
]) {
	test(`rewrites two million characters of ${JSON.stringify(piece)} in linear time`, t => {
		const html = piece.repeat(2_000_000 / piece.length);
		t.is(typeof rewrite(html, {openUrl, clickUrl}).html, 'string');
		t.is(typeof rewrite(`<a href="https://x.test/${html}`, {openUrl, clickUrl}).html, 'string');
		t.is(typeof rewrite(`<a href=" ${html.replaceAll('"', ' ')}x">`, {openUrl, clickUrl}).html, 'string');
	});
}
