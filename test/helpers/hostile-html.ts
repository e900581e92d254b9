import {once} from 'node:events';
import {type AddressInfo, createServer} from 'node:net';
import type {Scope} from './daemon.ts';

/** A host that no mail may reach. It counts connections too: a browser may open one and ask nothing. */
export type Trap = {
	readonly url: string;
	/** The paths that were asked for, and `connected` for each connection. */
	readonly caught: readonly string[];
	readonly forget: () => void;
};

export async function openTrap(scope: Pick<Scope, 'teardown'>): Promise<Trap> {
	const caught: string[] = [];
	const server = createServer(socket => {
		caught.push('connected');
		socket.on('error', () => undefined);
		socket.on('data', bytes => {
			caught.push(/^[A-Z]+ (\S+)/.exec(bytes.toString('latin1'))?.[1] ?? 'unread');
			socket.end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n');
		});
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	scope.teardown(() => server.close());
	const {port} = server.address() as AddressInfo;
	return {url: `http://127.0.0.1:${port}`, caught, forget: () => caught.splice(0)};
}

/**
 * Html that tries all that html can try without a fault of the browser: to run, to fetch, to connect, to send, to lead
 * away, and to lie over the page. Every way has a path of its own, so that a test can tell which one got through.
 */
export function hostileHtml(trap: string): string {
	return `<!doctype html><html background="${trap}/html"><head>
<base href="${trap}/" target="_top"><BASE/href="${trap}/base2/">
<meta http-equiv="refresh" content="0; url=${trap}/refresh"><meta/http-equiv=refresh content="0;${trap}/refresh2">
<meta http-equiv="x-dns-prefetch-control" content="on">
<link rel="preconnect" href="${trap}/"><LINK
rel=dns-prefetch href="${trap}/"><link/rel="stylesheet"/href="${trap}/sheet.css"><link rel="prefetch" href="${trap}/prefetch">
<link rel="preload" as="image" href="${trap}/preload"><link rel="icon" href="${trap}/icon"><link rel="manifest" href="${trap}/manifest">
<link rel="modulepreload" href="${trap}/module"><link rel="prerender" href="${trap}/prerender">
<style>@import url("${trap}/import.css"); @font-face { font-family: x; src: url("${trap}/font") }
* { font-family: x; cursor: url("${trap}/cursor"), auto } body { background: url("${trap}/background") }
.over { position: fixed; inset: -9999px; z-index: 2147483647; background: #f00 url("${trap}/over") }
li { list-style-image: url("${trap}/list") } p::before { content: url("${trap}/content") }</style>
<script>parent.document.title = 'taken'; fetch("${trap}/fetch"); new Image().src = "${trap}/image"</script>
<script src="${trap}/script.js"></script></head>
<body background="${trap}/body" onload="top.location = '${trap}/onload'" onpageshow="fetch('${trap}/pageshow')">
<img src="${trap}/img" onerror="top.location = '${trap}/onerror'"><img srcset="${trap}/srcset 1x"><img src="x" lowsrc="${trap}/lowsrc">
<picture><source srcset="${trap}/source"><img src="data:,"></picture><table background="${trap}/table"><tr><td>x</td></tr></table>
<video src="${trap}/video" poster="${trap}/poster" autoplay></video><audio src="${trap}/audio" autoplay></audio>
<video><source src="${trap}/source2"><track src="${trap}/track" default></video><input type="image" src="${trap}/input">
<iframe src="${trap}/iframe"></iframe><iframe srcdoc="<img src='${trap}/srcdoc'>"></iframe><frameset><frame src="${trap}/frame"></frameset>
<object data="${trap}/object"></object><embed src="${trap}/embed"><applet archive="${trap}/applet"></applet><portal src="${trap}/portal"></portal>
<svg><image href="${trap}/svg"/><use href="${trap}/use#x"/><a xlink:href="${trap}/svg-a"><text y="20">svg</text></a><script href="${trap}/svg-script"/></svg>
<form action="${trap}/form" method="get" target="_top"><input name="q" value="1" autofocus onfocus="this.form.submit()"><button>Log in</button></form>
<button formaction="${trap}/formaction" form="f">x</button><form id="f" action="${trap}/form2"></form>
<p style="background: url(${trap}/style)">p<ul><li>l</ul><details open ontoggle="fetch('${trap}/toggle')"></details>
<a class="over" href="${trap}/link" ping="${trap}/ping" target="_top">Click here</a>
<A/HREF="${trap}/link2" class="over" target="_blank">here</A><map name="m"><area class="over" href="${trap}/area"></map>
<a class="over" href="javascript:top.location='${trap}/javascript'">or here</a></body></html>`;
}
