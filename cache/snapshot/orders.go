package snapshot

import (
	"errors"
	"io"
)

// ordersName is the file of what operators want held.
const ordersName = "orders.json"

// maxOrders bounds the file.
const maxOrders = 16 << 20

// LoadOrders reads what SaveOrders wrote. The error is fs.ErrNotExist if that was nothing.
func (f *Folder) LoadOrders() ([]byte, error) {
	return do(f, func() ([]byte, error) {
		return read(f.folder, ordersName, func(r io.Reader) ([]byte, error) {
			return io.ReadAll(io.LimitReader(r, maxOrders))
		})
	})
}

// SaveOrders writes what operators want held, as the relay encodes it. When it returns it is on the
// disk. If there is an error, the file of before is still there.
func (f *Folder) SaveOrders(data []byte) error {
	_, err := do(f, func() (struct{}, error) {
		const temporary = ordersName + unfinished
		file, err := f.folder.Create(temporary)
		if err != nil {
			return struct{}{}, err
		}
		_, err = file.Write(data)
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err == nil {
			err = f.folder.Rename(temporary, ordersName)
		}
		if err != nil {
			_ = f.folder.Remove(temporary) // it may be the space that is missing
			return struct{}{}, err
		}
		return struct{}{}, f.folder.Sync()
	})
	return err
}
