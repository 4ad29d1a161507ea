// Pictures and signed maps, painted from their few bytes on a canvas.

const FOR = [178, 24, 43]; // speaks for the quantity
const AGAINST = [33, 102, 172]; // speaks against it
const PAPER = 244;

function bytesOf(text, Kind) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return Kind === Int8Array ? new Int8Array(bytes.buffer) : bytes;
}

function paint(canvas, width, height, colourAt) {
  canvas.width = width;
  canvas.height = height;
  canvas.classList.toggle("fine", width > 96); // large pictures are smoothed, small ones show their pixels
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i += 1) {
    const [red, green, blue] = colourAt(i);
    image.data.set([red, green, blue, 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** A picture as it is. */
export function paintPicture(canvas, raster) {
  const rgb = bytesOf(raster.rgb, Uint8Array);
  paint(canvas, raster.width, raster.height, (i) => rgb.subarray(3 * i, 3 * i + 3));
}

/** A signed map, red for and blue against, over a pale grey picture where there is one of the same size. */
export function paintMap(canvas, map, raster = null) {
  const values = bytesOf(map.values, Int8Array);
  const under = raster && raster.width === map.width && raster.height === map.height;
  const rgb = under ? bytesOf(raster.rgb, Uint8Array) : null;
  paint(canvas, map.width, map.height, (i) => {
    const grey = rgb ? 153 + 0.4 * ((rgb[3 * i] + rgb[3 * i + 1] + rgb[3 * i + 2]) / 3) : PAPER;
    const strength = Math.sqrt(Math.min(Math.abs(values[i]) / 127, 1)); // the root lets weak values be seen, too
    const colour = values[i] > 0 ? FOR : AGAINST;
    return colour.map((part) => strength * part + (1 - strength) * grey);
  });
}
