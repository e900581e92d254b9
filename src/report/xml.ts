import {Parser} from 'htmlparser2';

/** An element of XML without attributes, which reports have no use for. */
export type XmlElement = {
	/** Without its namespace's prefix, in lower case. */
	readonly name: string;
	text: string;
	readonly children: XmlElement[];
};

/** The bytes are no XML that is read; the message is a clause for people. */
export class XmlFault extends Error {}

const deepest = 12;
/** Elements that are kept at one time. */
const maxElements = 5000;
const maxTextLength = 2048;
/** Some reporters put an `xs:schema` before the document, or around it and never close it. */
const wrapper = 'schema';
/** The only element in a schema that is not part of it. */
const wrapped = 'feedback';

/**
 * Reads a document. Elements called `each` go to `take` and are forgotten, so that memory does not grow with their
 * number: a parser that makes an object of all took 8 seconds for 10 MB, and all memory for 10 MB of empty elements. No
 * report has a document type, so one is refused: no entity is ever expanded or fetched.
 *
 * @throws XmlFault
 */
export function readXml(text: string, each: string, take: (element: XmlElement) => void): XmlElement {
	const open: XmlElement[] = [];
	let root: XmlElement | undefined;
	let kept = 0;
	const parser = new Parser(
		{
			onopentagname(spelled) {
				const element = {name: spelled.slice(spelled.indexOf(':') + 1), text: '', children: []};
				kept++;
				if (open.length >= deepest || kept > maxElements) {
					throw new XmlFault(
						open.length >= deepest ? 'its elements lie too deep in each other' : 'it has too many elements',
					);
				}
				if (element.name !== each) {
					open.at(-1)?.children.push(element);
				}
				// A schema, with all that is in it, is the root only until the document comes.
				const isInSchema = open.some(({name}) => name === wrapper);
				const isDocument = element.name === wrapped || (element.name !== wrapper && !isInSchema);
				if (root === undefined || (root.name === wrapper && isDocument)) {
					root = element;
				}
				open.push(element);
			},
			ontext(said) {
				const into = open.at(-1);
				if (into !== undefined && into.text.length < maxTextLength) {
					into.text += said.slice(0, maxTextLength);
				}
			},
			onclosetag(_name, isImplied) {
				const ended = open.pop() as XmlElement;
				if (isImplied && ended.name !== wrapper && !isEmptyTag()) {
					throw new XmlFault('it ends too soon, or its tags do not match');
				}
				if (ended.name === each && ended !== root) {
					take(ended);
					kept = 0;
				}
			},
			onprocessinginstruction(name) {
				if (name.startsWith('!')) {
					throw new XmlFault('it has a document type, which could name entities');
				}
			},
		},
		{xmlMode: true, lowerCaseTags: true},
	);
	/** Of `<a/>` the end is implied, too. */
	const isEmptyTag = () => text.charCodeAt(parser.endIndex - 1) === 0x2f;
	parser.end(text);
	if (root === undefined) {
		throw new XmlFault('it is no XML');
	}
	return root;
}

/** The first element at a path, by names in lower case. */
export function elementAt(element: XmlElement | undefined, ...path: readonly string[]): XmlElement | undefined {
	return path.reduce<XmlElement | undefined>((at, name) => at?.children.find(child => child.name === name), element);
}

/** Its text; empty where it is missing. */
export function textAt(element: XmlElement | undefined, ...path: readonly string[]): string {
	return elementAt(element, ...path)?.text.trim() ?? '';
}
